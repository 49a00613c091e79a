"""After a restart whose programs have a clock of their own that is behind the machine's (it has started anew, and is up for longer than it was at the
checkpoint), children that are born are members, and stay so: `cairn list` has them, and a checkpoint is taken while one waits for a process that stands still."""
# ci: exact user
import os
import sys
from cairn_test import check

# On order it starts a child that asks it for something and waits for the answer.
PROGRAM = """
import os, subprocess, sys, time
print("READY", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
child = subprocess.Popen([sys.executable, "-c", "print(input() + '!', flush=True); input()"], stdin=subprocess.PIPE)
print("BORN", flush=True)
while not os.path.exists(sys.argv[1] + ".answer"):
    time.sleep(0.01)
child.stdin.write(b"answered\\n")
child.stdin.flush()
time.sleep(1000)
"""


def test(t):
    order = os.path.join(t.work, "order")
    program = t.launch([sys.executable, "-c", PROGRAM, order])
    program.expect("READY")
    t.checkpoint()
    t.pull_the_plug()
    t.sleep(1.5)  # so much its clock is behind afterwards
    program = t.restart("--clocks=keep")
    open(order, "w").close()
    program.expect("BORN")
    t.wait_members(2)
    t.sleep(2)  # the coordinator looks at who has come
    check(len(t.members()) == 2, f"the child has been dropped: {t.members()}")
    t.checkpoint("--timeout", "20")
    t.pull_the_plug()
    program = t.restart("--clocks=keep")
    open(order + ".answer", "w").close()
    program.expect("answered!")
