"""gdb and the program that it debugs: at a breakpoint, in the middle of its steps, and while the program runs; the next step, print and
continue are right, breakpoints and watchpoints are hit, and at the end nothing is left in the program."""
# ci: exact
import os
import subprocess

NEEDS = ["/usr/bin/gdb"]

SOURCE = """#include <stdio.h>
#include <unistd.h>
volatile int watched, go_on = 1;
static int work(int n) {
    int sum = 0;
    for (int i = 0; i <= n; ++i)
        sum += i;
    watched = sum;
    return sum;
}
int main(void) {
    for (int round = 1; go_on; ++round) {
        int got = work(round);
        printf("round %d gives %d\\n", round, got);
        fflush(stdout);
        usleep(1000);
    }
    puts("the end");
    return 7;
}
"""


def compiled(t, source, *options):
    with open(os.path.join(t.work, "debugged.c"), "w") as file:
        file.write(source)
    subprocess.run(["gcc", "-g", "-O0", "debugged.c", "-o", "debugged", *options], cwd=t.work, check=True)


class Gdb:
    def __init__(self, t, *options, command=None):
        self.t = t
        self.program = t.launch(command or ["gdb", "-q", "-nx", *options, "--args", "./debugged"], env={"DEBUGINFOD_URLS": ""})
        self.program.expect(r"\(gdb\) ")
        for setting in ("pagination off", "confirm off", "style enabled off", "width 0", "breakpoint pending on"):
            self.say(f"set {setting}")

    def say(self, line, *answers, prompt=True, timeout=30.0):
        self.program.send(line + "\n")
        for answer in answers:
            self.program.expect(answer, timeout)
        if prompt:
            self.program.expect(r"\(gdb\) ", timeout)

    def cycle(self, number):
        self.program, _ = self.t.cycle(self.program, number)


def test(t):
    compiled(t, SOURCE)
    gdb = Gdb(t)
    gdb.say("break work", r"Breakpoint 1 at")
    gdb.say("run", r"Breakpoint 1, work \(n=1\)")
    rounds = 1
    for number in range(t.rounds):
        gdb.cycle(number)  # at a breakpoint
        gdb.say("print n", rf"\$\d+ = {rounds}\r?\n")
        gdb.say("next", r"\d+\s+for \(int i = 0")
        gdb.cycle(number)  # between two steps
        gdb.say("step", r"\d+\s+sum \+= i")
        gdb.say("print i", r"\$\d+ = 0\r?\n")
        gdb.say("finish", rf"Value returned is \$\d+ = {rounds * (rounds + 1) // 2}\r?\n")
        gdb.say("continue", rf"round {rounds} gives.*Breakpoint 1, work \(n={rounds + 1}\)")
        rounds += 1
        gdb.say("watch watched", r"Hardware watchpoint \d+: watched")
        gdb.cycle(number)  # with a watchpoint in the processor's registers
        gdb.say("continue", r"Hardware watchpoint \d+: watched.*New value = " + str(rounds * (rounds + 1) // 2))
        gdb.say("delete $bpnum")
        gdb.say("disable 1")
        gdb.say("continue", prompt=False)
        gdb.program.expect(r"round \d+ gives")
        gdb.cycle(number)  # it runs
        gdb.program.expect(r"round \d+ gives.*round \d+ gives")
        gdb.program.send("\x03")
        gdb.program.expect(r"received signal SIGINT.*\(gdb\) ")
        gdb.say("enable 1")
        gdb.cycle(number)  # stopped by a signal, which the program isn't given
        gdb.say("continue", r"Breakpoint 1, work \(n=\d+\)")
        gdb.say("up", r"#1 .*main")
        gdb.say("set var round = 1000")
        gdb.say("continue", r"Breakpoint 1, work \(n=1001\)")
        rounds = 1001
    gdb.say("delete")
    gdb.say("set var go_on = 0")
    gdb.say("continue", r"the end.*exited with code 07")
    gdb.program.send("quit\n")
    gdb.program.expect_exit(0)
