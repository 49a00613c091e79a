"""`cairn mpi trace` writes what `cairn causality` reads: nothing left over, places in the source, the same in a replay as in the record."""
import json
import re

from cairn_test.mpi_job import expect


def causality(job, verb, folder, *options, ranks=4):
    traces = [f"{folder}/trace.{rank}" for rank in range(ranks)]
    out, _ = job.run([job.cairn, "causality", verb, *options, *traces])
    return out


def lines(job, folder, ranks=4, times=False):
    """The events of each process; without times, which differ from run to run, if not asked for."""
    traces = [f"{folder}/trace.{rank}" for rank in range(ranks)]
    out, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *traces, "-"])
    events = [[] for _ in range(ranks)]
    for line in out.splitlines():
        event = json.loads(line)
        if "p" in event:
            if not times:
                event.pop("time", None)
                event.pop("took", None)
            events[event["p"]].append(event)
    return events


def check_times(job, folder, ranks=4):
    """Nobody is in two calls at once, and calls take time."""
    for rank, events in enumerate(lines(job, folder, ranks, times=True)):
        left = 0
        for event in events:
            time, took = event["time"], event.get("took", 0)
            begin, end = (time, time + took) if event["e"] in ("send", "post") else (time - took, time)
            expect(event.get("joined") or begin >= left, f"{folder}: rank {rank} is in the call before until {left}: {event}")
            left = max(left, end)
        expect(any(event.get("took", 0) > 0 for event in events), f"{folder}: no call of rank {rank} took any time")


def check_late(job):
    """Who waits for a message, and who for somebody to take one."""
    job.run([*job.mpiexec(3), job.cairn, "mpi", "trace", "--out", "t-late", job.program("late"), "5"])
    check_times(job, "t-late", 3)
    _, middle, _ = lines(job, "t-late", 3, times=True)
    for call, least in (("MPI_Recv", 10e6), ("MPI_Ssend", 5e6)):
        took = sorted(event.get("took", 0) for event in middle if event["call"] == call)
        expect(len(took) == 5 and took[2] > least, f"{call} of rank 1 took {took} ns")


def check_places(job, places):
    """The lines that the trace says, run by the program; and lines that are none."""
    program = [job.program("heat"), "4", "16", "22"]

    def checked(name, options, code=0):
        return job.run([*job.mpiexec(4), job.cairn, "mpi", "check-places", "--out", name, *options, *program], code=code)

    found = re.search(r"behind MPI_Allreduce at (heat\.c:\d+)", places)
    expect(found, places)
    out, err = checked("p1", ["--at", found[1]])
    expect("heat: sum" in out and f"behind {found[1]}: nothing in transit and nobody waiting in 2 of 2 passes" in err, err)
    _, err = checked("p2", ["--before", "--at", "MPI_Finalize"])
    expect("before MPI_Finalize: nothing in transit and nobody waiting in 1 of 1 passes" in err, err)
    # Behind an Isend its request is open.
    out, err = checked("p3", ["--at", "MPI_Isend"], code=None)
    expect("requests are open" in err, err)
    # Ranks at the ends have one neighbour and wait once in each exchange, the others twice.
    _, err = checked("p4", ["--wait", "3", "--at", "MPI_Waitany"], code=None)
    expect("waits for the others behind MPI_Waitany" in err and "is in MPI_" in err and "heat.c:" in err, err)
    _, err = checked("p5", ["--at", "nowhere.c:7"], code=None)
    expect("it never comes by nowhere.c:7" in err, err)


def test(job, given):
    for name, arguments in (("heat", ["4", "16", "12"]), ("bitonic", ["100"]), ("farm", ["30", "10"]), ("rows", [])):
        program = [job.program(name), *arguments]
        job.run([*job.mpiexec(4), job.cairn, "mpi", "trace", "--out", f"t-{name}", *program])
        summary = json.loads(causality(job, "check", f"t-{name}", "--json"))
        expect(summary["in_transit"] == 0, f"{name}: messages are left over: {summary}")
        expect(summary["receives"] == summary["sends"] and summary["sends"] > 0, f"{name}: {summary}")
        check_times(job, f"t-{name}")
        job.record(4, f"r-{name}", program)
        job.replay(4, f"r-{name}", program, options=["--trace", f"t1-{name}"])
        job.replay(4, f"r-{name}", program, options=["--trace", f"t2-{name}"])
        one, other = lines(job, f"t1-{name}"), lines(job, f"t2-{name}")
        expect(all(one), f"{name}: ranks without events in a replay's trace: {[len(process) for process in one]}")
        expect(one == other, f"{name}: two replays have other traces")
    check_late(job)
    events = lines(job, "t-heat")
    at = {event.get("at", "") for process in events for event in process}
    expect(any(place.startswith("exchange@heat.c:") for place in at), f"no places in the source: {at}")
    expect({"MPI_Waitany", "MPI_Isend", "MPI_Testsome"} <= {event.get("call") for process in events for event in process}, "no names of calls")
    # The picture has both.
    traces = [f"t-heat/trace.{rank}" for rank in range(4)]
    job.run([job.cairn, "causality", "view", *traces, "heat.html"])
    with open(f"{job.folder}/heat.html", encoding="utf-8") as file:
        expect(re.search(r'"MPI_Waitany at heat\.c:\d+ \(exchange\)"', file.read()), "the picture doesn't say what is called where")
    places = causality(job, "places", "t-heat")
    expect("heat.c:" in places, f"no line for a checkpoint:\n{places}")
    check_places(job, places)
