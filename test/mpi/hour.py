"""A step back of `cairn mpi debug` takes less than a second anywhere in a long run, and what the checkpoints have in memory stays below --memory.
--soak: as many events as an hour has of a program with a thousand in a second, 3,600,000 in each of two ranks."""
import random
import statistics
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect

MEMORY = 400  # MB, of both ranks


def timed(debugger, command):
    begin = time.monotonic()
    told = debugger.do(command)
    return time.monotonic() - begin, told


def megabytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM"))


def test(job, given):
    rounds, places = (1_800_000, 20) if given.soak else (20_000, 4)
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    program = [job.program("hour"), str(rounds), "32"]
    job.deadline = 600
    began = time.monotonic()
    job.record(2, "hour", program, options=["--contents"])
    recorded, began = time.monotonic() - began, time.monotonic()
    with Debugger(job, "hour", program, ["--memory", str(MEMORY)]) as debugger:
        opened = time.monotonic() - began
        events = {}
        took = {"to the end": [], "to anywhere": [], "step back": [], "and again": []}
        for rank in (0, 1):
            seconds, told = timed(debugger, f"to {rank}:end")
            events[rank] = told["event"]
            took["to the end"].append(seconds)
        expect(min(events.values()) >= 2 * rounds, events)
        most = 0
        for _ in range(places):
            rank = chance.randrange(2)
            to = chance.randrange(100, events[rank])
            took["to anywhere"].append(timed(debugger, f"to {rank}:{to}")[0])
            for i in range(3):
                back = chance.choice([1, 1, 10, 90])
                seconds, told = timed(debugger, f"reverse-step {back}")
                to -= min(back, to)
                expect(told["event"] == to, f"seed {seed}: {told}, not {to}")
                took["step back" if i == 0 else "and again"].append(seconds)
            most = max(most, debugger.do("checkpoints")["bytes"] >> 20)
        memory = debugger.do("verify")
        expect(memory["differences"] == [], f"seed {seed}: {memory}")
        debuggers = megabytes(debugger.process.pid)
    print(f"{sum(events.values())} events, seed {seed}: recorded in {recorded:.1f} s, opened in {opened:.1f} s, {most} MB of checkpoints, "
          f"{debuggers} MB of the debugger's")
    for what, seconds in took.items():
        print(f"{what}: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")
    expect(max(took["step back"] + took["and again"]) < 1, f"seed {seed}: a step back took {max(took['step back'] + took['and again']):.2f} s")
    expect(most < MEMORY, f"seed {seed}: {most} MB of checkpoints")
