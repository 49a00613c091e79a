"""Slurm: a serial job that is requeued, preempted with a warning, and preempted without one that it gets, goes on each time, on changing
nodes, and ends with the result of an undisturbed one. `serial.py user`: an ordinary user's. The long form is 20 minutes of work, preempted ten times."""
# ci serial:
# ci serial_user: user
# timeout: 300
from cairn_test import check
from cairn_test.slurm import Cluster


def test(t):
    steps = 24000 if t.soak else 3000
    rounds = 10 if t.soak else 3
    with Cluster(t, 2, user="user" in t.arguments.names, more="SlurmctldParameters=preempt_send_user_signal") as slurm:
        line = f"exec cairn slurm run --interval 3 --poll 2 -- {slurm.numbers()} {steps} result"
        # Without B: Slurm's warning goes to the steps alone, of which there is none: the job has to see by itself.
        warned = slurm.submit([line], "--signal=B:USR1@60", "-t", "60", "--exclusive")
        slurm.wait_state(warned, "RUNNING")
        t.say(slurm.wait_comment(warned))
        seen = {slurm.field(warned, "NodeList")}
        for number in range(rounds):
            slurm.wait_steps("result", steps // (rounds + 2) if t.soak else 20, 600)
            if number % 3 == 2:
                slurm.wait_comment(warned)
                slurm.must("scontrol", "requeue", warned)
                node = slurm.again(warned)
            elif number % 3 == 1:
                slurm.must("scontrol", "update", f"JobId={warned}", "TimeLimit=50")
                node = slurm.preempt(warned)
            else:
                node = slurm.preempt(warned)
            seen.add(node)
            t.say(f"round {number + 1}: on {node}, step {slurm.step('result')}, {slurm.field(warned, 'Comment')}")
            slurm.wait_steps("result", 1)
        slurm.check_ended(warned, "result", steps, 1500 if t.soak else 120)
        check(len(seen) == 2, f"it was on {seen} only")
        said = slurm.read(f"{t.work}/job.out")
        check(said.count("the job goes on from checkpoint") == rounds, f"it went on another time than {rounds}:\n{said}")
        code, out, _ = t.run(["ls", t.work])
        check(code == 0 and f"cairn-{warned}" not in out, f"checkpoints are left: {out}")
