"""`record --contents`, then each rank alone, with no other and without mpiexec: it prints what it printed, and its events come in the same
order. Also under gdb, and up to where it was killed. --soak: more ranks, more rounds."""
import os
import subprocess

from cairn_test.mpi_job import calls_of, expect, rows_of


def lines_of(out, rank):
    return sorted(line for line in out.splitlines() if f"rank {rank} of" in line)


def alone(job, rank, name, program, code=0):
    out, err = job.run([job.cairn, "mpi", "replay", "--rank", str(rank), name, *program], code)
    if code == 0:
        expect("alone" in err and "as recorded" in err, err)
    return out, err


def gdb(job, rank, name, program, commands):
    done = subprocess.run([job.cairn, "mpi", "replay", "--rank", str(rank), "--gdb", name, *program], cwd=job.folder, env=job.env,
                          input="\n".join(commands) + "\n", text=True, capture_output=True, timeout=job.deadline, check=False)
    return done.stdout + done.stderr


def test_rows():
    """The programs ask every question that the table has."""
    here = os.path.dirname(os.path.abspath(__file__))
    asked = calls_of(f"{here}/given.c") | calls_of(f"{here}/rows.c")
    questions = {name for name, what in rows_of(f"{here}/../../mpi/table/functions.txt").items() if what == "answer"}
    expect(questions, "the table has no questions")
    expect(questions <= asked, f"no program asks {questions - asked}")


def test(job, given):
    test_rows()
    for ranks in (4, 8) if given.soak else (4,):
        for name, arguments in (("rows", ["each"]), ("given", [])):
            program = [job.program(name), *arguments]
            for i in range(20 if given.soak else 1):
                out, _ = job.record(ranks, f"{name}-{i}", program, options=["--contents"])
                for rank in range(ranks):
                    mine, _ = alone(job, rank, f"{name}-{i}", program)
                    expect(lines_of(mine, rank) == lines_of(out, rank) != [], f"{name}: rank {rank} alone: {mine}\nrecorded: {out}")
        # What rank 0 prints comes from all others.
        printing = {"farm": ["150", "3000"], "fortran_f08": []}
        if given.soak:
            printing |= {"heat": ["8", "32", "30"], "bitonic": ["1000"], "fortran_77": [], "fortran_mpi": []}
        for name, arguments in printing.items():
            program = [job.program(name), *arguments]
            out, _ = job.record(ranks, name, program, options=["--contents"])
            for rank in range(ranks):
                mine, _ = alone(job, rank, name, program)
                if rank == 0:
                    expect(mine and set(mine.splitlines()) <= set(out.splitlines()), f"{name}: rank {rank} alone: {mine}\n{out}")
        # With all its contents it is still a record for all together.
        again, _ = job.replay(ranks, "farm", [job.program("farm"), "150", "3000"])
        expect("farm: sum" in again, again)

    # A debugger: stopped in the middle, with the data that others sent.
    farm = [job.program("farm"), "150", "3000"]
    told = gdb(job, 2, "farm", farm, ["break work", "run", "backtrace", "ignore 1 1000000", "continue"])
    expect("in work (" in told and "worker (" in told and "farm.c:" in told, told)
    expect("replayed rank 2" in told and "exited normally" in told, told)

    # What the clock says.
    out, _ = job.record(4, "clock", [job.program("clock")], options=["--clock", "--contents"])
    again, _ = job.replay(4, "clock", [job.program("clock")])
    expect(again == out and "clock: path" in out, f"{again}, recorded: {out}")
    mine, _ = alone(job, 0, "clock", [job.program("clock")])
    expect(mine == out, f"{mine}, recorded: {out}")

    # Another path than recorded.
    _, err = alone(job, 0, "farm", [job.program("farm"), "140", "3000"], code=3)
    for text in ("rank 0: departs from its record at event", "recorded: MPI_", "now:      MPI_", "farm.c:"):
        expect(text in err, f"'{text}' isn't said:\n{err}")
    told = gdb(job, 0, "farm", [job.program("farm"), "140", "3000"], ["run", "backtrace"])
    expect("SIGTRAP" in told and "master (" in told, f"gdb isn't given the departure:\n{told}")

    # Killed: the same, up to there.
    job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--contents", "--out", "killed", job.program("crash")], code=None)
    out, _ = alone(job, 0, "killed", [job.program("crash")], code=(-9, 137))
    expect("crash: here" in out, f"it doesn't come to the crash: {out}")
    _, err = alone(job, 1, "killed", [job.program("crash")], code=3)
    expect("its record ends here" in err, err)

    # What can't be.
    job.record(4, "order", farm)
    _, err = alone(job, 1, "order", farm, code=3)
    expect("record it with --contents" in err, err)
    _, err = alone(job, 9, "farm", farm, code=2)
    expect("the ranks are 0 to" in err, err)
    _, err = job.run([*job.mpiexec(2), job.cairn, "mpi", "replay", "--rank", "1", "farm", *farm], code=None)
    expect("without mpiexec" in err, err)
