"""Records that don't fit, are damaged or can't be written: a clear error, and the program's own result untouched."""
import os
import shutil

from cairn_test import modes
from cairn_test.mpi_job import expect, order


def test(job, given):
    farm = [job.program("farm"), "60", "100"]
    job.record(3, "good", farm)

    def refused(why, code, folder="good", ranks=3, program=None):
        out, err = job.replay(ranks, folder, program or farm, code=code)
        expect(why in err, f"'{why}' isn't said:\n{err}")
        expect("sum" not in out, "the program ran")

    refused("is a record of another program", 3, program=[job.program("heat")])
    refused("is a record of 3 ranks; these are 2. Start it with -n 3", 3, ranks=2)
    refused("opening", None, folder="nowhere")
    shutil.copytree(f"{job.folder}/good", f"{job.folder}/missing")
    os.unlink(f"{job.folder}/missing/rank.2")
    refused("missing/rank.2: No such file", 1, folder="missing")
    shutil.copytree(f"{job.folder}/good", f"{job.folder}/cut")
    os.truncate(f"{job.folder}/cut/rank.1", os.path.getsize(f"{job.folder}/cut/rank.1") - 7)
    refused("cut/rank.1: it is cut off", 4, folder="cut")
    shutil.copytree(f"{job.folder}/good", f"{job.folder}/damaged")
    with open(f"{job.folder}/damaged/rank.0", "r+b") as file:
        file.seek(-3, 2)
        file.write(b"xyz")
    refused("damaged/rank.0: block", 4, folder="damaged")
    job.record(3, "second", farm)
    shutil.copytree(f"{job.folder}/good", f"{job.folder}/mixed")
    shutil.copy(f"{job.folder}/second/rank.1", f"{job.folder}/mixed/rank.1")
    refused("are of two records", 4, folder="mixed")
    _, err = job.run([*job.mpiexec(2), job.cairn, "mpi", "record", "--out", "good", *farm], code=None)
    expect("has a record already" in err, err)

    # Another path: other arguments. Rank, event, both calls and both places.
    _, err = job.replay(3, "good", [job.program("farm"), "50", "100"], code=3)
    for text in ("departs from its record at event", "recorded: MPI_", "now:      MPI_", "farm.c:"):
        expect(text in err, f"'{text}' isn't said:\n{err}")

    # A full disk: the program goes on.
    if os.geteuid() != 0:
        print("SKIPPED PART full disk: only root mounts a small one")
    else:
        modes.enter_own_mounts()
        small = f"{job.folder}/small"
        os.mkdir(small)
        job.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small])
        try:
            out, err = job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--out", "small/r", *farm])
            expect("sum" in out and "not recorded" in err and "No space left" in err, f"{out}\n{err}")
            expect("the program goes on without being recorded" in err, err)
            # Full in the middle of the run: with contents it soon writes more than is there.
            job.run(["mount", "-o", "remount,size=8m", small])
            out, err = job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--contents", "--out", "small/s", job.program("noise"), "20"])
            expect("noise: sum" in out and "is of no use behind this point" in err and "No space left" in err, f"{out}\n{err}")
            told, _ = job.run([job.cairn, "mpi", "check", "small/s"])
            expect("recording was given up at event" in told, told)
            plain, _ = job.plain(3, [job.program("noise"), "20"])
            expect(plain == out, f"{plain}, but with a full disk {out}")
            _, err = job.run([job.cairn, "mpi", "replay", "--rank", "1", "small/s", job.program("noise"), "20"], code=3)
            expect("its record ends here" in err, err)
        finally:
            job.run(["umount", small])

    # Killed in the middle: what happened until then is replayed, and then everybody stands still.
    _, err = job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--out", "killed", job.program("crash")], code=None)
    out, err = job.run([*job.mpiexec(3), job.cairn, "mpi", "replay", "killed", job.program("crash")], code=None)
    expect("the program was killed at event" in err, err)
    expect("crash: here" in out, f"the replay doesn't come to the crash:\n{out}\n{err}")
    told, _ = job.run([job.cairn, "mpi", "check", "killed"])
    expect("not whole, it breaks off: rank" in told, told)

    # A record that is there stays, and that is said once; --force does without it, in a folder that was made with those above it.
    _, err = job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--out", "far/below/it", job.program("farm"), "5", "10"])
    told, _ = job.run([job.cairn, "mpi", "check", "far/below/it"])
    expect(f"whole: each rank came to its end; order {order(err)}" in told, f"{told}\n{err}")
    _, again = job.run([*job.mpiexec(3), job.cairn, "mpi", "record", "--out", "far/below/it", job.program("farm"), "5", "10"], code=None)
    expect(again.count("has a record already") == 1, again)
    _, err = job.run([*job.mpiexec(2), job.cairn, "mpi", "record", "--force", "--out", "far/below/it", job.program("farm"), "5", "10"])
    told, _ = job.run([job.cairn, "mpi", "check", "far/below/it"])
    expect(f"order {order(err)}" in told and "2 ranks of" in told, f"{told}\n{err}")
    expect(not os.path.exists(f"{job.folder}/far/below/it/rank.2"), "a rank of the record before is left")

    # Who departs because of what the clock says is told how to record it.
    job.record(4, "by_clock", [job.program("clock")])
    _, err = job.replay(4, "by_clock", [job.program("clock")], code=None)
    expect("departs from its record" in err and "record it with --clock" in err, err)
