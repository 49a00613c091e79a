"""gdb and a program of eight threads: stopped at a breakpoint that any of them hits, and while all of them run. After each restart the program makes
one more, of which the kernel tells gdb by a number of its own; where root can choose it, it is one by which the program calls another thread."""
# ci: virtual user
# serial: it sets the kernel's counter of ids back, and others would be given ids that computations are to come back with
import importlib
import os
import sys

NEEDS = ["/usr/bin/gdb"]

SOURCE = """#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int go_on = 1, more = 0;
static volatile long beats[8];
static volatile pid_t tids[8];
static void beat(int number) { ++beats[number]; }
static void *run(void *number) {
    tids[(long)number] = gettid();
    while (go_on) {
        beat((int)(long)number);
        usleep(1000);
    }
    return number;
}
static volatile long newcomers;
static void greet(void) { ++newcomers; }
static void *come(void *number) {
    greet();
    while (go_on)
        usleep(1000);
    return number;
}
/* The next number that the kernel gives out is the one by which we know a thread, if it has another in truth, and we may. */
static void choose_number(pid_t known) {
    FILE *last = getenv("CAIRN_TEST_NUMBERS") == 0 ? 0 : fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (last == 0)
        return;
    fprintf(last, "%d", known - 1);
    fclose(last);
}
int main(void) {
    pthread_t threads[8], later[16];
    int count = 0;
    for (long i = 0; i < 8; ++i)
        pthread_create(&threads[i], 0, run, (void *)i);
    for (long beat = 0; go_on; ++beat) {
        printf("beat %ld\\n", beat);
        fflush(stdout);
        usleep(20000);
        if (more) {
            more = 0;
            choose_number(tids[count % 8]);
            pthread_create(&later[count++], 0, come, (void *)0L);
        }
    }
    for (int i = 0; i < count; ++i)
        pthread_join(later[i], 0);
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
    if t.ids == "virtual":
        t.env["CAIRN_TEST_NUMBERS"] = "1"
    gdb = base.Gdb(t)
    gdb.say("break beat", r"Breakpoint 1 at")
    gdb.say("break greet", r"Breakpoint 2 at")
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
        gdb.say("set var more = 1")
        gdb.say("continue", r"hit Breakpoint 2, greet \(\)")
        gdb.cycle(number)
        gdb.say("finish", r"Run till exit.*come \(number=0x0\)")
        gdb.say("thread apply all -q print 4 * 11", *[r"\$\d+ = 44"] * (10 + number))
        gdb.say("enable 1")
        gdb.say("continue", r"hit Breakpoint 1, beat \(number=\d\)")
    gdb.say("delete")
    gdb.say("set var go_on = 0")
    gdb.say("continue", r"the end.*exited with code 07")
    gdb.program.send("quit\n")
    gdb.program.expect_exit(0)
