"""A program that forks and executes all the time and hardly gets the processor: SCHED_IDLE beside programs that calculate. A
process that stands for half a second in the middle of its execve or of its exit has no environment to be seen, and is no
stranger for that. Where it gets the processor even less (what else the machine does isn't ours to say) a checkpoint is given up when
the programs have stood still for ten seconds, and nothing else is said of it."""
# ci: exact
# serial: it calculates on all processors, and waits for what is left
# timeout: 300
import contextlib
import os
import signal
from cairn_test import check
from cairn_test.serving import begin, finish
TIMED_OUT = 6  # exit code

# In the program's own session, because the scheduler shares the processors among sessions first (sched(7), autogroup); and
# nobody's children, because a member's would be strangers.
BESIDE = """
for i in $(seq $0); do (sh -c 'echo $$ >>calculating; while :; do :; done' &); done
exec "$@"
"""


def schedule(t, program, policy):
    # Threads come and go all the time, and each begins with the policy of who has made it. chrt --all-tasks fails where one
    # that it has seen has ended meanwhile, which with this program can be every time.
    def all_are_there():
        others = 0
        for thread in os.listdir(f"/proc/{program.pid}/task"):
            try:
                if os.sched_getscheduler(int(thread)) != policy:
                    os.sched_setscheduler(int(thread), policy, os.sched_param(0))
                    others += 1
            except ProcessLookupError:
                pass
        return others == 0

    t.wait_until(all_are_there, "the program's threads to have another scheduling policy")


def test(t):
    program = begin(t, "churn", wrapper=["/bin/sh", "-c", BESIDE, str(2 * (os.cpu_count() or 1))])
    try:
        schedule(t, program, os.SCHED_IDLE)
        wanted, taken, late = 200 if t.soak else 5, 0, 0
        while taken < wanted:
            before = t.latest()
            code, _, said = t.command("checkpoint", "--timeout", "60")
            if code == TIMED_OUT:
                late += 1
                check(t.latest() == before, "a checkpoint that was given up became the latest")
                check(late <= 10 + wanted, f"{late} checkpoints were given up, {taken} were taken")
                continue
            check(code == 0 and t.latest() != before, f"'cairn checkpoint' ended with {code}: {said}")
            taken += 1
        t.say(f"{taken} checkpoints were taken, {late} given up")
    finally:
        with open(os.path.join(t.work, "calculating")) as file:
            for line in file:
                os.kill(int(line), signal.SIGKILL)
    # The program has the processor now, unless others are at work; an ordinary user may not give it more (RLIMIT_NICE).
    with contextlib.suppress(PermissionError):
        schedule(t, program, os.SCHED_OTHER)
    finish(t, program)
