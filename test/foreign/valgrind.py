"""Valgrind: a static program that runs others by its own rules, at an address of its own, and makes every system call by itself. Memcheck under a program
of threads and under python3, helgrind under the threads: what they compute and what is found at the end is what it would be without a checkpoint."""
# ci: exact
import os
import re
import subprocess

NEEDS = ["/usr/bin/valgrind", "/usr/lib/debug/.build-id"]

SOURCE = """#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total, raced;
static volatile int go_on = 1;
static void *run(void *number) {
    while (go_on) {
        long *room = malloc(100 * sizeof *room);
        for (long i = 0; i < 100; ++i)
            room[i] = i;
        pthread_mutex_lock(&lock);
        total += room[99];
        pthread_mutex_unlock(&lock);
        ++raced; /* what helgrind finds */
        free(room);
        usleep(2000);
    }
    return number;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; ++i)
        pthread_create(&threads[i], 0, run, (void *)i);
    char *lost = malloc(77); /* what memcheck finds */
    lost[0] = 0;
    lost = 0;
    for (int beat = 0; access("stop", F_OK) != 0; ++beat) {
        printf("beat %d\\n", beat);
        fflush(stdout);
        usleep(20000);
    }
    go_on = 0;
    for (int i = 0; i < 4; ++i)
        pthread_join(threads[i], 0);
    pthread_mutex_lock(&lock);
    printf("total %s\\n", total > 0 && total % 99 == 0 ? "right" : "wrong");
    pthread_mutex_unlock(&lock);
    return 7;
}
"""

PYTHON = """import hashlib, json, os, threading, time
counts = {}
def size(name):
    return len(json.dumps({"a": [hashlib.sha256(name.encode()).hexdigest()] * 10}))
each = size("one")
def work(name):
    while not os.path.exists("stop"):
        counts[name] = counts.get(name, 0) + size(name)
        time.sleep(0.01)
threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
for thread in threads: thread.start()
beat = 0
while not os.path.exists("stop"):
    print("beat", beat, flush=True)
    beat += 1
    time.sleep(0.05)
for thread in threads: thread.join()
assert counts["one"] % each == 0 and counts["two"] % each == 0, counts
print("the end")
"""


def under_valgrind(t, tool, program, found, code):
    t.say(f"{tool} of {program[0]}")
    stop = os.path.join(t.work, "stop")
    if os.path.exists(stop):
        os.unlink(stop)
    program = t.launch(["valgrind", f"--tool={tool}", "--leak-check=full", *program] if tool == "memcheck" else ["valgrind", f"--tool={tool}", *program],
                       env={"PYTHONMALLOC": "malloc"})
    last = int(program.expect(r"beat (\d+)\r?\n", 60).group(1))
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        last = max(last, int(program.expect(r"beat (\d+)\r?\n", 60).group(1)))
        assert last > number, last
        program.expect(r"beat (\d+)\r?\n", 60)
    with open(stop, "w"):
        pass
    for text in found:
        program.expect(text, 60)
    program.expect_exit(code)


def test(t):
    with open(os.path.join(t.work, "beats.c"), "w") as file:
        file.write(SOURCE)
    with open(os.path.join(t.work, "beats.py"), "w") as file:
        file.write(PYTHON)
    subprocess.run(["gcc", "-g", "-O0", "beats.c", "-o", "beats", "-pthread"], cwd=t.work, check=True)
    under_valgrind(t, "memcheck", ["./beats"], [r"total right", r"77 bytes in 1 blocks are definitely lost", r"ERROR SUMMARY: 1 errors"], 7)
    under_valgrind(t, "helgrind", ["./beats"], [r"ossible data race.*at 0x[0-9A-F]+: run \(beats.c"], 7)
    under_valgrind(t, "memcheck", ["/usr/bin/python3", "beats.py"], [r"the end", r"ERROR SUMMARY: \d+ errors"], 0)
