"""A step back of `cairn mpi debug` takes less than a second anywhere in a long run, and what the kernel counts for the ranks' processes is no more than
--memory and what the programs themselves have.
--soak: as many events as an hour has of a program with a thousand in a second, 3,600,000 in each of two ranks."""
import os
import random
import statistics
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect

SIZE = 32  # MB that each rank writes to, again and again
THEMSELVES = 2 * (SIZE + 8)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def processor_time(pid):
    """Seconds, of the debugger and of all processes that it has now or has had."""
    ticks = 0
    for each in (str(pid), *children_of(pid)):
        with open(f"/proc/{each}/stat", encoding="utf-8") as file:
            times = file.read().rsplit(")", 1)[1].split()[11:15]
        ticks += sum(map(int, times))
    return ticks / os.sysconf("SC_CLK_TCK")


class Took:
    """How long commands took, by the clock and of the processor: one process at a time runs, so on a machine with nothing else to do they are the same."""

    def __init__(self, debugger):
        self.debugger, self.of = debugger, {}

    def do(self, what, command):
        begin, used = time.monotonic(), processor_time(self.debugger.process.pid)
        told = self.debugger.do(command)
        self.of.setdefault(what, []).append((time.monotonic() - begin, processor_time(self.debugger.process.pid) - used))
        return told

    def longest_used(self, *which):
        return max(used for what in which for _, used in self.of[what])

    def __str__(self):
        lines = []
        for what, each in self.of.items():
            clock, used = zip(*each)
            lines.append(f"  {what}: median {statistics.median(clock):.2f} s, longest {max(clock):.2f} s; of the processor {statistics.median(used):.2f} and {max(used):.2f} s")
        return "\n".join(lines)


def megabytes(path, name):
    with open(path, encoding="ascii") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith(name))


def of_all_processes(pid):
    """MB of the ranks' processes, what they share counted once; and how many they are."""
    children = children_of(pid)
    return sum(megabytes(f"/proc/{child}/smaps_rollup", "Pss:") for child in children), len(children)


def anywhere(debugger, places, chance, seed, memory):
    """Goes to places at random, and from each of them back a little, three times."""
    took, events = Took(debugger), {}
    for rank in (0, 1):
        events[rank] = took.do("to the end", f"to {rank}:end")["event"]
    most, said, processes = 0, 0, 0
    for _ in range(places):
        rank = chance.randrange(2)
        to = chance.randrange(100, events[rank])
        took.do("to anywhere", f"to {rank}:{to}")
        for i in range(3):
            back = chance.choice([1, 1, 10, 90])
            told = took.do("step back" if i == 0 else "and again", f"reverse-step {back}")
            to -= min(back, to)
            expect(told["event"] == to, f"seed {seed}: {told}, not {to}")
        said = max(said, debugger.do("checkpoints")["bytes"] >> 20)
        counted, processes = of_all_processes(debugger.process.pid)
        most = max(most, counted)
    same = debugger.do("verify")
    expect(same["differences"] == [], f"seed {seed}: {same}")
    forks = [each["fork"] * 1000 for each in debugger.do("checkpoints")["ranks"]]
    print(f"--memory {memory}: {events[0] + events[1]} events, {places} places, {said} MB of checkpoints, {most} MB of {processes} processes, "
          f"{megabytes(f'/proc/{debugger.process.pid}/status', 'VmHWM:')} MB of the debugger's, longest forks {forks[0]:.1f} and {forks[1]:.1f} ms\n{took}", flush=True)
    longest = took.longest_used("step back", "and again")
    expect(longest < 1, f"seed {seed}, --memory {memory}: a step back took {longest:.2f} s of the processor")
    expect(said < memory + THEMSELVES and most < memory + THEMSELVES, f"seed {seed}, --memory {memory}: {said} MB of checkpoints, {most} MB of all")
    return events


def starved(job):
    """A rank that gets a tenth of a processor isn't copied each half second of the clock: the copies would cost more than it gets done in between."""
    program = [job.program("steady"), "400000", "1"]
    job.record(1, "starved", program, options=["--contents"])
    with Debugger(job, "starved", program) as debugger:
        processor = {min(os.sched_getaffinity(0))}
        expect(debugger.do("where")["focus"] == 0, "nobody stands")
        for pid in (debugger.process.pid, *map(int, children_of(debugger.process.pid))):
            os.sched_setaffinity(pid, processor)
        busy = [subprocess.Popen(["taskset", "-c", str(min(processor)), "sh", "-c", "while :; do :; done"]) for _ in range(9)]
        took = Took(debugger)
        try:
            took.do("to the end", "to 0:end")
        finally:
            for each in busy:
                each.kill()
                each.wait()
        (clock, used), = took.of["to the end"]
        taken = debugger.do("checkpoints")["ranks"][0]["taken"]
    print(f"starved: {clock:.1f} s for {used:.2f} of the processor, {taken} checkpoints")
    expect(clock > 1, f"it had a processor: {clock} s")
    expect(taken <= 1 + used / 0.5, f"{taken} checkpoints in {used:.2f} s of running")


def test(job, given):
    starved(job)
    rounds, places = (1_800_000, 40) if given.soak else (20_000, 4)
    seed = random.randrange(1 << 32)
    program = [job.program("steady"), str(rounds), str(SIZE)]
    job.deadline = 3600 if given.soak else 600
    began = time.monotonic()
    job.record(2, "hour", program, options=["--contents"])
    print(f"seed {seed}: recorded in {time.monotonic() - began:.1f} s")
    for memory in (800, 400) if given.soak else (400,):
        began = time.monotonic()
        with Debugger(job, "hour", program, ["--memory", str(memory)]) as debugger:
            print(f"opened in {time.monotonic() - began:.1f} s")
            events = anywhere(debugger, places, random.Random(seed), seed, memory)
        expect(min(events.values()) >= 2 * rounds, events)
