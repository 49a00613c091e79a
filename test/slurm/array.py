"""Slurm: the tasks of a job array, each requeued once and each with a result of its own; a program with threads; what is refused in words."""
# ci: none
# timeout: 300
import os
from cairn_test import check
from cairn_test.slurm import Cluster

THREADS = """
import sys, threading, time
import numpy
parts = [numpy.arange(1000, dtype=numpy.uint64) + numpy.uint64(n) for n in range(4)]
steps = int(sys.argv[1])
gate = threading.Barrier(4)
def work(n):
    for step in range(steps):
        parts[n] = parts[n] * numpy.uint64(6364136223846793005) + numpy.uint64(step)
        gate.wait()
        if n == 0:
            time.sleep(0.05)
            with open(sys.argv[2] + ".step", "w") as file:
                file.write(str(step))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with open(sys.argv[2], "w") as file:
    file.write(str(int(sum(parts).sum())))
"""


def test(t):
    steps = 300
    with Cluster(t, 2, user=True) as slurm:
        line = f"exec cairn slurm run --interval 2 -- {slurm.numbers()} $(({steps} + SLURM_ARRAY_TASK_ID)) r$SLURM_ARRAY_TASK_ID"
        array = slurm.submit([line], "--array=1-3")
        tasks = [f"{array}_{n}" for n in (1, 2, 3)]
        threads = slurm.numbers("threads.py", THREADS)
        threaded = slurm.submit([f"exec cairn slurm run --interval 2 -- {threads} {steps} t"], "-c", "4", name="threads")
        for job in *tasks, threaded:
            slurm.wait_state(job, "RUNNING")
            t.wait_until(lambda: slurm.field(job, "Comment") != "", f"a checkpoint of job {job}")
        for job in *tasks, threaded:
            slurm.must("scontrol", "requeue", job)
        for job in *tasks, threaded:
            t.wait_until(lambda: slurm.field(job, "Restarts") == "1", f"job {job} to be requeued")
        for n in 1, 2, 3:
            slurm.check_ended(tasks[n - 1], f"r{n}", steps + n)
        slurm.wait_state(threaded, "COMPLETED", "FAILED")
        alone = os.path.join(t.work, "alone")
        code, _, err = t.run([*threads.split(), str(steps), alone])
        check(code == 0 and slurm.read(alone) == slurm.read(f"{t.work}/t") != "", f"threads: {slurm.read(t.work + '/t')} {err}")
        for name in "job", "threads":
            check("goes on from checkpoint" in slurm.read(f"{t.work}/{name}.out"), f"{name} has not gone on: it began anew")
        refused = slurm.submit(["cairn slurm run -- srun hostname"], name="refused")
        cut = slurm.submit(["exec cairn slurm run -- sleep 1"], "--open-mode=truncate", name="cut")
        slurm.wait_state(refused, "FAILED")
        check(slurm.field(refused, "ExitCode") == "3:0", f"exit code {slurm.field(refused, 'ExitCode')}")
        slurm.wait_state(cut, "COMPLETED")
        check("mpiexec" in slurm.read(f"{t.work}/refused.out"), "srun isn't refused in words")
        check("--open-mode=append" in slurm.read(f"{t.work}/cut.out"), "nothing is said of the truncation")
