"""A restart follows at once on the kill of a program that takes its time to end: it is waited for, where it had been refused as running already; one that lives on is refused."""
# ci: exact
import os
import signal
from cairn_test import check

# Much to unmap, and little to save: the same memory many times.
PROGRAM = """
import mmap, os, time
memory = os.memfd_create("much")
os.ftruncate(memory, 32 << 20)
os.pwrite(memory, os.urandom(32 << 20), 0)
many = [mmap.mmap(memory, 32 << 20, mmap.MAP_SHARED | mmap.MAP_POPULATE) for _ in range(300)]
count = 0
while True:
    count += 1
    with open("count", "w") as file:
        file.write(str(count))
    time.sleep(0.02)
"""


def count(t):
    try:
        with open(os.path.join(t.work, "count"), encoding="utf-8") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0


def goes_on(t):
    before = t.wait_until(lambda: count(t), "the program to count")
    t.wait_until(lambda: count(t) > before + 3, "the program to go on")


def is_ending(pid):
    """PF_EXITING of proc(5)'s flags."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            stat = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] != "Z" and int(stat[6]) & 4 != 0


def test(t):
    t.launch(["/usr/bin/python3", "-c", PROGRAM], terminal="none")
    goes_on(t)
    seen = 0
    for number in range(t.rounds):
        t.checkpoint()
        code, _, err = t.run([os.path.join(t.ckptdir, "restart.sh")])
        check(code == 3 and "runs already in the session" in err, f"a restart beside the program: {code} {err}")
        pid = int(t.members()[0]["real"])
        os.kill(pid, signal.SIGKILL)
        t.wait_until(lambda: is_ending(pid) or not os.path.exists(f"/proc/{pid}"), "the program to begin to end")
        seen += is_ending(pid)
        t.restart(terminal="none", name=f"restart {number + 1}")
        goes_on(t)
    check(seen > 0, "nobody has taken any time to end")
