"""Slurm: a job's node is killed, the controller is killed, and the newest checkpoint is damaged: nothing is lost but the time since."""
# timeout: 300
import glob
import os
from cairn_test import check
from cairn_test.slurm import Cluster


def damage(t, job):
    """One byte in the middle of the newest checkpoint's largest image that no other checkpoint needs."""
    folder = os.path.realpath(f"{t.work}/cairn-{job}/latest")
    largest = max((path for path in glob.glob(folder + "/*.image") if os.stat(path).st_nlink == 1), key=os.path.getsize)
    with open(largest, "r+b") as file:
        file.seek(os.path.getsize(largest) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    return folder


def test(t):
    steps = 3000
    with Cluster(t, 2, user=True) as slurm:
        line = f"exec cairn slurm run --interval 2 --poll 2 -- {slurm.numbers()} {steps} result"
        job = slurm.submit([line], "--exclusive")
        slurm.wait_state(job, "RUNNING")
        slurm.wait_comment(job)
        # The controller goes and comes back: the job doesn't notice but for its comment.
        slurm.wait_saved()
        slurm.controller.kill()
        slurm.wait_steps("result", 100)
        slurm.controller.start()
        t.wait_until(lambda: slurm.state(job) == "RUNNING", "the controller")
        t.say(slurm.wait_comment(job))
        # The node goes. Slurm requeues by itself when it has missed the node for a while.
        first = next(node for node in slurm.nodes if node.name == slurm.field(job, "NodeList"))
        saved = slurm.step("result")
        first.kill()
        t.wait_until(lambda: slurm.field(job, "Restarts") == "1", "Slurm to miss the node", 60)
        node = slurm.again(job)
        check(node != first.name, f"{node} was killed")
        slurm.wait_steps("result", 1)
        t.say(f"the node killed at step {saved}; on {node} at step {slurm.step('result')}")
        check(slurm.step("result") > saved - 100, "more is lost than since the last checkpoint")
        slurm.wait_comment(job)
        slurm.wait_comment(job)
        slurm.must("scontrol", "requeue", job)
        slurm.wait_state(job, "PENDING")
        slurm.wait_killed()
        folder = damage(t, job)
        slurm.again(job)
        slurm.check_ended(job, "result", steps)
        said = slurm.read(f"{t.work}/job.out")
        check(f"{folder} is damaged" in said, f"nothing is said of the damaged checkpoint {folder}:\n{said}")
        check("begins anew" not in said, "it began anew")
