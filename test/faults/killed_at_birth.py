"""`cairn kill` of a program that forks all the time: whoever is being born at that moment is ended as well, also if the parent was
killed before it could say whom it has borne. Who was left would keep the session's old number in use, and a restart would have to take
another."""
# ci: exact user
import glob
from cairn_test import check

# Two parents, so that one is at it while the other is looked at. No more than two hundred children at a time.
PARENT = r"""
import os, time
os.fork()
for _ in range(100):
    os.posix_spawn("/bin/sleep", ["sleep", "20"], os.environ)
time.sleep(20)
"""


def left(t):
    """Processes that have the library and the region of this test's session."""
    found = []
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue
        if "libcairn.so" in text and any(t.env["CAIRN_RUNDIR"] in line and "/region" in line for line in text.splitlines()):
            found.append(path.split("/")[2])
    return found


def test(t):
    for number in range(40 if t.soak else 5):
        t.launch(["/usr/bin/python3", "-c", PARENT], terminal="none")
        t.wait_members(5 + number % 7)
        if number == 0:
            check(left(t), "nobody is found, even though they run")
            t.checkpoint()
        t.must("kill")
        check(not left(t), f"round {number}: {left(t)} are left")
        if number == 0:
            t.restart(terminal="none")
            t.wait_members(3)
            t.must("kill")
            check(not left(t), f"after a restart {left(t)} are left")
        t.programs.clear()
