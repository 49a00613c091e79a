"""One measurement of one system: from the launch of the subject to its second life."""
import os
import pathlib
import shutil
import signal
import time

from beside.systems import Failed


class Subject:
    """bench_subject (subject.cpp says what its lines mean)."""

    def __init__(self, program, folder, mib=16, processes=1, threads=0, descriptors=0, mappings=0, share=0):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.files = [folder / str(i) for i in range(processes)]
        self.command = [program, folder, mib, processes, threads, descriptors, mappings, share]
        self.mib = max(mib, 1 / 16) * processes + mappings / 256
        self.pids = []

    def so_far(self):
        return [each.stat().st_size if each.exists() else 0 for each in self.files]

    def line(self, i, word, after):
        """The first line of process `i` with this word behind what was there. None: there is none yet."""
        text = self.files[i].read_text()[after:] if self.files[i].exists() else ""
        if "bad " in text:
            raise Failed("the memory is wrong: " + text.strip())
        for line in text.splitlines(keepends=True):
            if line.startswith(word + " ") and line.endswith("\n"):
                return [int(x) for x in line.split()[1:]]
        return None

    def lines(self, word, after, system, timeout=300):
        """Those of all processes. They are waited for one by one: who looks at all of them again and again has a fifth of
        the machine where there are 512, and measures himself."""
        until = time.monotonic() + timeout
        found = []
        while len(found) < len(self.files):
            i = len(found)
            line = self.line(i, word, after[i])
            if line is not None:
                found.append(line)
                continue
            if not system.alive():
                raise Failed(f"it ended before the program was there: {system.said()}")
            if time.monotonic() > until:
                raise Failed(f"process {i} of {len(self.files)} doesn't say '{word}' within {timeout} s: {system.said()}")
            time.sleep(0.002)
        return found

    def ask(self, number, word, system):
        """The answers of all to a signal."""
        after = self.so_far()
        for pid in self.pids:
            os.kill(pid, number)
        return [line[0] for line in self.lines(word, after, system)]


def prepare(state, subject):
    """How the machine's memory is when something is measured. `freed`: as much as will be needed has just been given back.
    `cache`: all that is free holds pages of a file, which the kernel has to drop first. `dropped`: nothing has been done
    with it since the caches were dropped; a machine within another one may have to ask that one for it."""
    if state == "freed":
        block = bytearray(int(subject.mib + 1) << 20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        del block
        return
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    if state == "cache":
        free = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemFree"))
        file = subject.folder / "cache"
        with open(file, "w+b") as holes:
            holes.truncate(free << 10)
            while holes.read(1 << 24):
                pass


def end(system, pids):
    """Kills them, and waits until their ids are free: whoever restarts with the same ids would have to wait for that, and how
    long it takes is the business of the machine's init, which reaps orphans."""
    system.kill()
    until = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() > until:
            raise Failed("what was killed is still there after 30 s")
        time.sleep(0.01)


def once(system, subject, state, dirty=False):
    """What one life and its restarts have taken: nanoseconds, and bytes."""
    after = subject.so_far()
    system.start(subject.command)
    subject.pids = [line[0] for line in subject.lines("ready", after, system)]
    told = {}
    # From the third checkpoint of a life on the kernel is asked which pages were written to (docs/using.md).
    for _ in range(2 if dirty else 0):
        system.checkpoint()
        subject.ask(signal.SIGUSR1, "dirty", system)
    os.sync()
    subject.ask(signal.SIGUSR2, "gap", system)
    began = time.monotonic_ns()
    told["stored"] = system.checkpoint()
    told["durable"] = time.monotonic_ns() - began
    told["pause"] = max(subject.ask(signal.SIGUSR2, "gap", system))
    end(system, subject.pids)
    for what, lazy in (("eager", False), ("lazy", True)):
        if lazy and not system.lazy:
            continue
        time.sleep(0.2)
        prepare(state, subject)
        after = subject.so_far()
        began = time.time_ns()
        system.restart(lazy)
        told[what] = max(line[0] for line in subject.lines("late", after, system)) - began
        end(system, subject.pids)
    return told
