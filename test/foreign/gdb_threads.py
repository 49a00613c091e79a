"""gdb and a program of eight threads: stopped at a breakpoint that any of them hits, and while all of them run."""
# ci: exact
import importlib
import sys
import os

NEEDS = ["/usr/bin/gdb"]

SOURCE = """#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int go_on = 1;
static volatile long beats[8];
static void beat(int number) { ++beats[number]; }
static void *run(void *number) {
    while (go_on) {
        beat((int)(long)number);
        usleep(1000);
    }
    return number;
}
int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; ++i)
        pthread_create(&threads[i], 0, run, (void *)i);
    for (long beat = 0; go_on; ++beat) {
        printf("beat %ld\\n", beat);
        fflush(stdout);
        usleep(20000);
    }
    for (int i = 0; i < 8; ++i)
        pthread_join(threads[i], 0);
    puts("the end");
    return 7;
}
"""


def test(t):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    base = importlib.import_module("gdb")
    base.compiled(t, SOURCE, "-pthread")
    gdb = base.Gdb(t)
    gdb.say("break beat", r"Breakpoint 1 at")
    gdb.say("run", r"hit Breakpoint 1, beat \(number=\d\)")
    for number in range(t.rounds):
        gdb.say("continue", r"hit Breakpoint 1, beat \(number=\d\)")
        gdb.cycle(number)
        gdb.say("print number >= 0 && number < 8", r"\$\d+ = 1\r?\n")
        gdb.say("next")
        gdb.cycle(number)
        for _ in range(10):
            gdb.say("continue", r"hit Breakpoint 1, beat \(number=\d\)")
        gdb.say("disable 1")
        gdb.say("continue", r"beat \d+", prompt=False)
        gdb.cycle(number)
        gdb.program.expect(r"beat \d+.*beat \d+")
        gdb.program.send("\x03")
        gdb.program.expect(r"received signal SIGINT.*\(gdb\) ")
        gdb.say("enable 1")
        gdb.say("thread apply all -q print 4 * 11", *[r"\$\d+ = 44"] * (9 if number == 0 else 9))
        gdb.say("continue", r"hit Breakpoint 1, beat \(number=\d\)")
    gdb.say("delete")
    gdb.say("set var go_on = 0")
    gdb.say("continue", r"the end.*exited with code 07")
    gdb.program.send("quit\n")
    gdb.program.expect_exit(0)
