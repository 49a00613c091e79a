"""The restart tool, the programs' parent from now on, has a number that one of the programs goes by (virtual ids): nobody takes it for
that program, neither getppid() nor the next checkpoint and its restart."""
# ci: virtual
# serial: it sets the kernel's counter of ids back, and others would be given ids that computations are to come back with
from cairn_test import Skip, check

COUNT = 100

PROGRAM = r"""
import os, signal, sys
mine, children = os.getpid(), []
for number in range(int(sys.argv[1])):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        # Not pause(2): a signal that comes while it is begun again (a stop, a restart) is handled before it, and it waits on.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        os.write(write, b"+")
        while True:
            signal.sigwait([signal.SIGUSR1])
            os.write(write, b"y" if os.getppid() == mine else b"n")
    os.close(write)
    os.read(read, 1)
    children.append((child, read))
print("UP", min(c for c, _ in children), max(c for c, _ in children), flush=True)
for line in sys.stdin:
    said = b""
    for child, read in children:
        os.kill(child, signal.SIGUSR1)
        said += os.read(read, 1)
    parent = os.getppid()
    print("CHILD" if parent in [child for child, _ in children] else "OUTSIDE", said.count(b"y"), os.getpid() == mine, flush=True)
"""


def test(t):
    if t.mode == "user":
        raise Skip("root alone chooses numbers")
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(COUNT)])
    first, last = (int(number) for number in program.expect(r"UP (\d+) (\d+)\r?\n").groups())
    t.wait_members(COUNT + 1)
    met = 0
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(first + 10))
        program = t.restart(name=f"restart {number + 1}", ids="virtual")
        met += first <= program.pid <= last
        program.send("?\n")
        program.expect(rf"OUTSIDE {COUNT} True\r?\n")
    check(met > 0, f"the tool never had a number from {first} to {last}")
    t.say(f"{met} of {t.rounds} times the tool had the number of a program")
