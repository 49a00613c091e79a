"""A small group that ticks: what a fault must not stop. python3 and its children; each counts in a file of its own."""

import os

from .session import Failure

PROGRAM = r"""
import mmap, os, sys, time
shared = mmap.mmap(-1, 1 << 16)
shared[:] = os.urandom(1 << 10) * 64
name = sys.argv[1]
children = int(sys.argv[2])
for number in range(children):
    if os.fork() == 0:
        name = f"{name}.{number}"
        break
ballast = bytearray(os.urandom(1 << 16)) * (16 * int(sys.argv[3]) if len(sys.argv) > 3 else 1)
# One file, never renamed: what is done between a checkpoint and the death is not undone, and a file that was open and
# has another name now is missed by the restart.
file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
count = 0
while True:
    count += 1
    os.pwrite(file, b"%10d %10d\n" % (os.getpid(), count), 0)
    assert len(ballast) and time.sleep(0.01) is None
"""


class Ticking:
    """`size`: MiB of memory of each process."""

    def __init__(self, t, name="tick", children=2, size=1, **options):
        self.t, self.names = t, [name] + [f"{name}.{n}" for n in range(children)]
        self.program = t.launch(["/usr/bin/python3", "-c", PROGRAM, name, str(children), str(size)], **options)
        t.wait_members(children + 1)
        self.all_tick("at the beginning")

    def read(self, name):
        try:
            with open(os.path.join(self.t.work, name)) as file:
                pid, count = map(int, file.read().split())
                return pid, count
        except (OSError, ValueError):
            return None

    def counts(self):
        return [self.read(name) for name in self.names]

    def all_tick(self, when, timeout=15):
        """Every process is there, with the pid that it has always had, and makes progress."""
        before = self.counts()

        def moved():
            now = self.counts()
            return all(a and (not b or a[1] != b[1]) for a, b in zip(now, before))
        self.t.wait_until(moved, f"every process to go on {when}: {before}", timeout)
        now = self.counts()
        for name, was, is_ in zip(self.names, before, now):
            if was and was[0] != is_[0]:
                raise Failure(f"{name} had pid {was[0]} and has {is_[0]} {when}")

    def checkpoint_works(self, when):
        folder = self.t.checkpoint()
        self.all_tick(when)
        return folder

    def survives_a_restart(self, number=0):
        """The newest checkpoint is good: everybody is killed and comes back from it."""
        self.t.pull_the_plug()
        self.program = self.t.restart(name="restart")
        self.all_tick("after the restart")
