"""Slurm: a job that is longer than its time limit comes to its end in several runs: by the warning of sbatch's --signal, and by what it asks
Slurm itself. A signal that isn't the warning is the program's; a job that its user cancels isn't requeued."""
# ci: none
# timeout: 300
import time
from cairn_test import check
from cairn_test.slurm import NUMBERS, Cluster

ASKED = "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: open('asked', 'w').close())\n"


def test(t):
    steps = 900
    with Cluster(t, 2, user=True) as slurm:
        program = slurm.numbers("asked.py", ASKED + NUMBERS)
        began = time.monotonic()
        signalled = slurm.submit([f"exec cairn slurm run --interval 0 --poll 0 -- {program} {steps} one"], "--signal=B:USR1@40", "-t", "1")
        asking = slurm.submit([f"exec cairn slurm run --interval 0 --poll 2 --before 35 -- {program} {steps} two"], "-t", "1", name="two")
        other = slurm.submit([f"exec cairn slurm run --interval 2 -- {program} {steps} three"], name="three")
        slurm.wait_steps("one", 5)
        slurm.must("scancel", "--signal=USR2", "--batch", signalled)
        slurm.wait_comment(other)
        slurm.must("scancel", other)
        slurm.wait_state(other, "CANCELLED")
        for job, name in (signalled, "one"), (asking, "two"):
            node = slurm.again(job)
            t.say(f"job {job} goes on on {node} at step {slurm.step(name)}, {time.monotonic() - began:.0f} s after the beginning")
        for job, name in (signalled, "one"), (asking, "two"):
            while slurm.state(job) != "COMPLETED" and time.monotonic() < began + 200:
                if slurm.state(job) == "PENDING":
                    slurm.again(job)
                t.sleep(0.5)
            slurm.check_ended(job, name, steps, 10)
        check("asked" in str(t.run(["ls", t.work])[1]), "SIGUSR2 has not reached the program")
        check("the job is requeued" not in slurm.read(f"{t.work}/three.out"), "a cancelled job was requeued")
