"""The machine's pool of hugetlb pages, kept full beside a test, whoever the test runs as: others take from it as well (UCX does,
and so every MPICH job, as soon as there is something in it)."""
import os
import signal
import subprocess
import sys
import time

from . import modes

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
MOST = 200  # that are added, in all
KEPT = "CAIRN_TEST_HUGE_PAGES"


def number(name):
    with open(POOL + name) as file:
        return int(file.read())


class Pool:
    """Enough pages that nobody has: `needed` for the test, `wanted` with some for others. What it has added is taken away again."""

    def __init__(self, needed, wanted):
        self.needed, self.wanted = needed, wanted
        self.raised = 0

    @staticmethod
    def free():
        return number("free_hugepages") - number("resv_hugepages")

    @staticmethod
    def lasting():
        """Without those that are in use and go when they are free: the pool has been made smaller meanwhile."""
        return number("nr_hugepages") - number("surplus_hugepages")

    def fill(self):
        missing = min(self.wanted - self.free(), MOST - self.raised)
        if missing > 0:
            before = self.lasting()
            self.set(number("nr_hugepages") + missing)
            self.raised += self.lasting() - before
        return self.free() >= self.needed

    def fill_with_patience(self):
        """Memory may be in pieces."""
        for _ in range(100):
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


def keep_pool(needed, wanted, **environment):
    """Runs this test again, beside a full pool; returns at once in the second one."""
    if KEPT in os.environ:
        return
    pool = Pool(needed, wanted)
    try:
        full = pool.fill_with_patience()
    except OSError as problem:
        print(f"SKIPPED: no huge pages, and none can be had: {problem}")
        sys.exit(77)
    try:
        if not full:
            print(f"SKIPPED: this machine has no {needed} huge pages of memory in one piece")
            sys.exit(77)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        again = subprocess.Popen(modes.own_command(), env=dict(os.environ, **{KEPT: "1"}, **environment))
        while again.poll() is None:
            pool.fill()
            time.sleep(0.02)
        if again.returncode not in (0, 77):
            print(f"the pool at the end: {pool.free()} pages free of {number('nr_hugepages')}, {pool.raised} added in all")
        sys.exit(again.returncode)
    finally:
        pool.close()
