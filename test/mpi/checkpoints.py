"""`cairn mpi record --checkpoints`: every protocol in a real job takes the forced checkpoints, and adds the bytes, that the simulator finds
for the same traffic; no checkpoint is useless under an index, and all dependencies are trackable under RDT; the recovery line is the one
that `cairn causality` computes, and the debugger's ranks stand there as a straight run would make them. --soak: more programs and ranks."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect, order

PROTOCOLS = ("uncoordinated", "bcs", "bcs-sent", "russell", "fdas", "bhmr")
TRACKABLE = ("russell", "fdas", "bhmr")
PROGRAMS = [("crossing", ["3"], 4, 5), ("heat", ["8", "16", "6"], 4, 13)]
SOAK = [("crossing", ["4"], 7, 3), ("farm", ["60", "400"], 5, 20), ("bitonic", ["60"], 4, 7), ("rows", ["each"], 3, 50), ("fortran_f08", [], 3, 4),
        ("fortran_mpi", [], 3, 4), ("heat", ["16", "64", "60"], 16, 40)]


def figures(err):
    found = re.search(r"cairn mpi: ([\w-]+): (\d+) basic and (\d+) forced checkpoints of \d+ ranks; (\d+) bytes of control data with (\d+) messages, "
                      r"(\d+) at most", err)
    expect(found, f"nothing is said of checkpoints:\n{err}")
    expect("couldn't be told" not in err, err)
    return dict(zip(("basic", "forced", "control_bytes", "messages", "most_control_bytes"), map(int, found.groups()[1:])))


def causality(job, verb, *words):
    done = subprocess.run([job.cairn, "causality", verb, "--json", *words], cwd=job.folder, env=job.env, text=True, capture_output=True, check=False)
    expect(done.returncode == 0, f"{verb} {words}: {done.stderr}")
    return json.loads(done.stdout)


def traces(job, name, ranks):
    return [f"{job.folder}/{name}/trace.{rank}" for rank in range(ranks)]


def as_simulated(job, name, protocol, ranks, told):
    simulated = causality(job, "simulate", "--protocol", protocol, *traces(job, name, ranks))["runs"][0]
    for what, value in told.items():
        expect(simulated[what] == value, f"{name}, {protocol}: {what} is {value} in the job and {simulated[what]} in the simulator")
    patterns = causality(job, "zigzag", *traces(job, name, ranks))
    expect(protocol == "uncoordinated" or patterns["useless"] == 0, f"{name}: {protocol} has useless checkpoints: {patterns}")
    expect(protocol not in TRACKABLE or patterns["trackable"], f"{name}: {protocol} hides a dependency: {patterns}")
    return patterns


def same_line(job, name, ranks, failed):
    words = ["--failed", ",".join(map(str, failed))] if failed else []
    mine = json.loads(job.run([job.cairn, "mpi", "recovery-line", "--json", *words, name])[0])
    everybody = failed or range(ranks)
    theirs = causality(job, "recovery-line", *[word for rank in everybody for word in ("--failed", str(rank))], *traces(job, name, ranks))
    expect([each["checkpoint"] for each in mine["ranks"]] == theirs["line"], f"{name}, {failed}: {mine} is not {theirs}")
    return mine


def stands_at_line(job, name, program, ranks, failed):
    with Debugger(job, name, program) as debugger:
        told = debugger.do("line " + ",".join(map(str, failed)))
        line = same_line(job, name, ranks, failed)["ranks"]
        ends = [debugger.do(f"to {rank}:end")["position"] for rank in range(ranks)]
        expect(told["cut"] == [ends[rank] if each["kind"] == "end" else each["position"] for rank, each in enumerate(line)], f"{told} {line}")
        told = debugger.do("line " + ",".join(map(str, failed)))
        differences = debugger.do("verify")["differences"]
        expect(not differences, f"{name}: not what a straight run makes of it: {differences}")
        # From there it goes on to the end.
        expect(debugger.do(f"to {told['focus']}:end")["event"] >= told["event"], "it doesn't go on")
    # The same from the start.
    with Debugger(job, name, program, ["--from", ",".join(map(str, failed)) or "all"]) as debugger:
        again = debugger.do("cut")
        expect(again["cut"] == told["cut"], f"{again} {told}")
        expect(debugger.do("verify")["differences"] == [], "what --from leads to")


def ranks_of(job, name):
    """The processes of this job that run the program."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(job.program(name)) and os.readlink(f"/proc/{pid}/cwd") == job.folder:
                yield int(pid)


def killed(job):
    """The job is killed in the middle: the line is found, and its ranks stand there."""
    program = [job.program("farm"), "600000", "400"]
    record = [*job.mpiexec(4), job.cairn, "mpi", "record", "--checkpoints", "bhmr", "--checkpoint-every", "40", "--out", "killed", *program]
    with subprocess.Popen(record, cwd=job.folder, env=job.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while not (os.path.exists(f"{job.folder}/killed/trace.0") and os.path.getsize(f"{job.folder}/killed/trace.0") > 60_000):
            expect(running.poll() is None and time.monotonic() < deadline, f"it doesn't run: {record}")
            time.sleep(0.05)
        for pid in list(ranks_of(job, "farm")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.wait(60)
    line = same_line(job, "killed", 4, [2])
    expect(line["useless"] == 0 and line["forced"] > 0 and line["ranks"][2]["kind"] != "end", line)
    stands_at_line(job, "killed", program, 4, [2])


def bad_input(job):
    for words, why in ((["--checkpoints", "chandy"], "--checkpoints: bcs"), (["--checkpoints", "logging"], "--checkpoints: bcs"),
                       (["--checkpoints", "bcs", "--checkpoint-every", "0"], "--checkpoint-every:"),
                       (["--checkpoints", "bcs", "--checkpoint-every", "1.5"], "--checkpoint-every:")):
        err = job.run([job.cairn, "mpi", "record", *words, "--out", "bad", job.program("heat")], code=2)[1]
        expect(why in err, err)
    job.record(2, "plain", [job.program("heat"), "4", "8", "2"], options=["--contents"])
    err = job.run([job.cairn, "mpi", "recovery-line", "plain"], code=2)[1]
    expect("record --checkpoints" in err, err)
    err = job.run([job.cairn, "mpi", "recovery-line", "--failed", "7", "crossing-fdas"], code=2)[1]
    expect("the ranks are 0 to" in err, err)


def test(job, given):
    # Open MPI takes a second for each job.
    programs = PROGRAMS + SOAK if given.soak else PROGRAMS if job.mpi == "mpich" else PROGRAMS[:1]
    for name, arguments, ranks, every in programs:
        if not os.path.exists(job.program(name)):
            continue
        program = [job.program(name), *arguments]
        for protocol in PROTOCOLS:
            folder = f"{name}-{protocol}"
            out, err = job.record(ranks, folder, program, options=["--checkpoints", protocol, "--checkpoint-every", str(every)])
            as_simulated(job, folder, protocol, ranks, figures(err))
            for failed in ([], [0], [ranks - 1, 1]):
                same_line(job, folder, ranks, failed)
            if protocol == "bhmr":
                replayed = job.replay(ranks, folder, program)
                # Which rank's line comes first is mpirun's to say.
                expect(sorted(out.splitlines()) == sorted(replayed[0].splitlines()) and order(err) == order(replayed[1]),
                       f"{folder} is replayed as something else:\n{replayed[0]}\nrecorded\n{out}")
            if protocol in ("uncoordinated", "fdas"):
                stands_at_line(job, folder, program, ranks, [1])
                stands_at_line(job, folder, program, ranks, [])
    out, err = job.record(3, "by-time", [job.program("farm"), "60", "400"], options=["--checkpoints", "bcs", "--checkpoint-every", "0.001s"])
    expect(figures(err)["basic"] > 0, err)
    killed(job)
    bad_input(job)
