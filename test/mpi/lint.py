"""`cairn mpi lint` finds the fault of each kind that faulty.c has, with rank, call and line, in the trace of a job that ended or
was killed, and nothing in a program without faults; the same from a record's trace; what an old trace can't say is said."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

from cairn_test.mpi_job import expect

RANKS = 4
# name -> kinds of finding; those that hang are killed after a while.
KINDS = {"circle": {"deadlock"}, "circle_ssend": {"deadlock"}, "circle_wait": {"deadlock"}, "wrong_tag": {"deadlock"},
         "race": {"race"}, "race_irecv": {"race"}, "race_probe": {"race"}, "request": {"request", "unreceived"}, "isend_request": {"request"},
         "persistent": {"leak"}, "communicator": {"leak"}, "group": {"leak"}, "type": {"leak"}, "operation": {"leak"},
         "collective": {"collective"}, "root": {"collective"}, "unreceived": {"unreceived"}, "truncated": {"truncated"},
         "other_type": {"type"}, "clean": set()}
HANG = {"circle", "circle_ssend", "circle_wait", "wrong_tag"}
MAY_HANG = {"collective", "root"}


def fault_lines(path):
    """The lines with a fault, by the function that has them."""
    lines, function = {}, ""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if begin := re.match(r"static void (\w+)\(", line):
                function = begin[1]
            if "/* FAULT */" in line:
                lines[function] = number
    return lines


def kinds_of(job, folder):
    out = subprocess.run([job.cairn, "mpi", "lint", "--json", folder], cwd=job.folder, env=job.env, text=True, capture_output=True, check=False)
    return {each["kind"] for each in json.loads(out.stdout)["findings"]} if out.returncode in (0, 3) else set()


def run_and_kill(job, command, hangs):
    """All are killed, with no chance to write anything, when hangs() says that they hang."""
    pids = [f"{job.folder}/pid.{rank}" for rank in range(RANKS)]
    with open(f"{job.folder}/output", "w", encoding="utf-8") as output:
        running = subprocess.Popen(command, cwd=job.folder, env=job.env, stdout=output, stderr=output)
        deadline = time.monotonic() + 30
        while running.poll() is None and not (all(map(os.path.exists, pids)) and hangs()):
            expect(time.monotonic() < deadline, f"it doesn't hang: {command}")
            time.sleep(0.1)
        for path in pids:
            with open(path, encoding="utf-8") as file:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(file.read()), signal.SIGKILL)
            os.unlink(path)
        running.kill()
        running.wait()


def trace(job, name, folder):
    command = [*job.mpiexec(RANKS), job.cairn, "mpi", "trace", "--out", folder, job.program("faulty"), name]
    if name in HANG | MAY_HANG:
        # A trace can be looked at while the program hangs.
        run_and_kill(job, command, lambda: KINDS[name] & kinds_of(job, folder))
    else:
        job.run(command)


def check_record(job):
    """A record of a job that hung and was killed: the trace of its replay says the same."""
    program = [job.program("faulty"), "circle"]
    until = time.monotonic() + 2
    run_and_kill(job, [*job.mpiexec(RANKS), job.cairn, "mpi", "record", "--out", "record", *program], lambda: time.monotonic() > until)
    # A replay stands still where the record ends.
    run_and_kill(job, [*job.mpiexec(RANKS), job.cairn, "mpi", "replay", "--trace", "t-record", "record", *program],
                 lambda: "deadlock" in kinds_of(job, "t-record"))
    out, _ = job.run([job.cairn, "mpi", "lint", "t-record"], code=3)
    expect(out.startswith("deadlock: a circle of 4: rank 0, MPI_Recv at faulty.c:"), out)


def check_fault(job, name, folder, line):
    kinds = KINDS[name]
    out, err = job.run([job.cairn, "mpi", "lint", "--json", folder], code=3 if kinds else 0)
    found = json.loads(out)
    all_kinds = {each["kind"] for each in found["findings"]}
    # Who calls other collectives may wait for each other, or not, as the MPI makes them.
    expect(all_kinds - ({"deadlock"} if name in MAY_HANG else set()) == kinds, f"{name}: {out}{err}")
    if not kinds:
        expect(not found["unknown"] and not found["notes"], f"{name}: {out}")
        return found
    here = f"faulty.c:{line}"
    first = ([each for each in found["findings"] if here in [spot.get("at") for spot in each["where"]]] + [None])[0]
    expect(first, f"{name}: not at line {line}: {out}")
    text, _ = job.run([job.cairn, "mpi", "lint", folder], code=3)
    expect(re.search(rf"^{first['kind']}: .*rank \d.*MPI_\w+ at faulty\.c:{line} \(", text, re.M), f"{name}: line {line}: {text}")
    return first


def test(job, given):
    source = f"{job.build}/../../test/mpi/faulty.c"
    lines = fault_lines(source)
    first = {}
    for name in KINDS:
        trace(job, name, f"t-{name}")
        first[name] = check_fault(job, name, f"t-{name}", lines.get(name))
    check_record(job)
    expect(first["circle"]["text"].startswith("a circle of 4") and len(first["circle"]["where"]) == 4, first["circle"]["text"])
    expect("waits for rank" in first["circle_ssend"]["text"], first["circle_ssend"]["text"])
    expect(first["race"]["count"] == 3 and len(first["race"]["where"]) == 3, f"3 + 2 + 1 pairs are possible: {first['race']}")
