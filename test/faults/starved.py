"""A program that forks and executes all the time and hardly gets the processor: `chrt --idle` beside programs that calculate. A
process that stands for half a second in the middle of its execve or of its exit has no environment to be seen, and is no
stranger for that."""
# ci: exact
# serial: it calculates on all processors, and waits for what is left
# timeout: 300
import os
import signal
import subprocess
from cairn_test.serving import begin, finish
NEEDS = ["/usr/bin/chrt"]

# In the program's own session, because the scheduler shares the processors among sessions first (sched(7), autogroup); and
# nobody's children, because a member's would be strangers.
BESIDE = """
for i in $(seq $0); do (sh -c 'echo $$ >>calculating; while :; do :; done' &); done
exec "$@"
"""


def test(t):
    program = begin(t, "churn", wrapper=["/bin/sh", "-c", BESIDE, str(2 * (os.cpu_count() or 1))])
    try:
        # Threads come and go: chrt fails where one that it has seen has ended meanwhile.
        t.wait_until(lambda: subprocess.run(["/usr/bin/chrt", "--all-tasks", "--idle", "--pid", "0", str(program.pid)],
                                            capture_output=True).returncode == 0, "the program's threads at the scheduler's end")
        for _ in range(200 if t.soak else 8):
            t.checkpoint("--timeout", "60")
    finally:
        with open(os.path.join(t.work, "calculating")) as file:
            for line in file:
                os.kill(int(line), signal.SIGKILL)
    finish(t, program)
