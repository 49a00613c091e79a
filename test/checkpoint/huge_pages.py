"""Memory of hugetlb pages, from a pool that root keeps filled meanwhile, whoever the test runs as: others take from it as
well (UCX does, and so every MPICH job, as soon as there is something in it)."""
# ci: exact
# serial: the machine's pool: an MPICH job beside it takes what there is
import os
import signal
import subprocess
import sys
import time
from cairn_test import check, modes
from cairn_test.serving import ask, begin, finish

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
NEEDED, WANTED, MOST = 5, 20, 100  # for the test, with some for others, in all
KEPT = "CAIRN_TEST_HUGE_PAGES"


def number(name):
    with open(POOL + name) as file:
        return int(file.read())


class Pool:
    """Enough pages that nobody has. What it has added is taken away again."""

    def __init__(self):
        self.raised = 0

    @staticmethod
    def free():
        return number("free_hugepages") - number("resv_hugepages")

    @staticmethod
    def lasting():
        """Without those that are in use and go when they are free: the pool has been made smaller meanwhile."""
        return number("nr_hugepages") - number("surplus_hugepages")

    def fill(self):
        missing = min(WANTED - self.free(), MOST - self.raised)
        if missing > 0:
            before = self.lasting()
            self.set(number("nr_hugepages") + missing)
            self.raised += self.lasting() - before
        return self.free() >= NEEDED

    def fill_with_patience(self):
        """Memory may be in pieces."""
        for _ in range(20):
            if self.fill():
                return True
            with open("/proc/sys/vm/compact_memory", "w") as file:
                file.write("1")
            time.sleep(0.1)
        return False

    def set(self, count):
        with open(POOL + "nr_hugepages", "w") as file:
            file.write(str(count))

    def close(self):
        self.set(max(0, self.lasting() - self.raised))


def keep_pool():
    """Runs this test again, beside a full pool."""
    pool = Pool()
    try:
        full = pool.fill_with_patience()
    except OSError as problem:
        print(f"SKIPPED: no huge pages, and none can be had: {problem}")
        sys.exit(77)
    try:
        if not full:
            print(f"SKIPPED: this machine has no {NEEDED} huge pages of memory in one piece")
            sys.exit(77)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        again = subprocess.Popen(modes.own_command(), env=dict(os.environ, **{KEPT: "1"}))
        while again.poll() is None:
            pool.fill()
            time.sleep(0.02)
        sys.exit(again.returncode)
    finally:
        pool.close()


def rain(t, program):
    """A checkpoint every 50 ms for 10 s without a restart."""
    end, number = time.monotonic() + 10, 0
    while time.monotonic() < end:
        code, _, err = t.command("checkpoint")
        check(code == 0, f"'cairn checkpoint' ended with {code}: {err}")
        ask(t, program, f"rain-{number}")
        t.sleep(0.05)
        number += 1


def test(t):
    program = begin(t, "huge_pages")
    if t.soak:
        rain(t, program)
    for count in range(t.rounds):
        program, _ = t.cycle(program, count)
        ask(t, program, count)
    finish(t, program)


if KEPT not in os.environ:
    keep_pool()
