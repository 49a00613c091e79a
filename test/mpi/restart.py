"""`cairn launch` and `cairn mpi record` in each order: a recorded job is saved, goes on, is killed (kill -9), restarted from there, and its
record is that of the run as it came to its end, which replays to the same order. --soak: every order, and a second restart of the same
checkpoint, when the job has already ended."""
import os
import subprocess
import time

from cairn_test.mpi_job import expect, order

RANKS = 3


def orders(job, name, program):
    cairn, launch = job.cairn, [job.cairn, "launch", "-s", name, "--ckptdir", f"{job.folder}/ckpt-{name}"]
    record, mpiexec = [cairn, "mpi", "record", "--out", name], job.mpiexec(RANKS)
    each = {"record-mpiexec-launch": [*record, *mpiexec, *launch, *program], "mpiexec-record-launch": [*mpiexec, *record, *launch, *program],
            "mpiexec-launch-record": [*mpiexec, *launch, *record, *program]}
    if job.mpi == "mpich":
        each |= {"launch-record-mpiexec": [*launch, *record, *mpiexec, *program], "record-launch-mpiexec": [*record, *launch, *mpiexec, *program],
                 "launch-mpiexec-record": [*launch, *mpiexec, *record, *program]}
    return each


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < deadline, f"{what} takes more than {seconds} s")
        time.sleep(0.05)


def test(job, given):
    job.env["CAIRN_RUNDIR"] = f"{job.folder}/run"
    os.mkdir(job.env["CAIRN_RUNDIR"])
    program = [job.program("paced"), "600" if given.soak else "300"]
    names = list(orders(job, "", program))
    for name in names if given.soak else ["launch-record-mpiexec" if job.mpi == "mpich" else "mpiexec-launch-record"]:
        os.mkdir(f"{job.folder}/ckpt-{name}")
        output = f"{job.folder}/output-{name}"
        with open(output, "w", encoding="utf-8") as file:
            running = subprocess.Popen(orders(job, name, program)[name], cwd=job.folder, env=job.env, stdout=file, stderr=file)
        tails = [f"{job.folder}/{name}/tail.{rank}" for rank in range(RANKS)]
        wait_for(f"{name}: a record", lambda: all(os.path.exists(tail) for tail in tails))
        time.sleep(0.3)
        job.run([job.cairn, "checkpoint", "-s", name])
        time.sleep(0.2)
        job.run([job.cairn, "kill", "-s", name])
        running.wait(60)
        for i in range(2 if given.soak else 1):
            with open(output, "w", encoding="utf-8") as file:
                pass
            _, said = job.run(["sh", f"ckpt-{name}/restart.sh"])
            wait_for(f"{name}: the end", lambda: not any(os.path.exists(tail) for tail in tails))
            told, _ = job.run([job.cairn, "mpi", "check", name])
            expect("whole: each rank came to its end" in told, f"{name}, restart {i}: {told}\n{said}")
            out, err = job.replay(RANKS, name, program)
            expect("paced: path" in out and order(err) in told, f"{name}, restart {i}: replayed {out}{err}, recorded {told}")
