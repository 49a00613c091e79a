"""Slurm: `sbatch --cairn=SECONDS`, by the plugin and with a site's file: the batch script itself is what is saved and goes on, with the shell's own state, when the job is requeued
on another node."""
# ci: none
# timeout: 300
import os
import shutil
from cairn_test import Skip, check
from cairn_test.slurm import Cluster


def test(t):
    plugin = f"{t.build}/lib/cairn_spank.so"
    if not os.path.exists(plugin):
        raise Skip("the plugin isn't built: slurm/spank.h is missing")
    # Where an installation has it, from where it finds the command by itself.
    os.makedirs(f"{t.work}/installed/lib/cairn")
    os.makedirs(f"{t.work}/installed/bin")
    plugin = shutil.copy(plugin, f"{t.work}/installed/lib/cairn")
    os.symlink(t.cairn, f"{t.work}/installed/bin/cairn")
    steps = 3000
    with Cluster(t, 2, user=True, plugstack=f"required {plugin}") as slurm:
        with open(f"{t.work}/site.conf", "w") as file:
            file.write(f"# ours\nckptdir = {t.work}/saved-%u\ninterval = 600\npoll = 2\n")
        slurm.env["CAIRN_SLURM_CONF"] = f"{t.work}/site.conf"
        # What is in a variable of the shell's is gone if the script begins anew.
        script = ["began=$RANDOM$RANDOM", "echo began $began $1 >> began", f"{slurm.numbers()} {steps} result", "echo ended $began $1 >> began"]
        job = slurm.submit(script, "--cairn=2", "--exclusive", arguments=["word"])
        slurm.wait_state(job, "RUNNING")
        slurm.wait_comment(job)
        check(os.path.isdir(f"{t.work}/saved-{slurm.user.pw_name}/cairn-{job}"), "the site's folder isn't used")
        first = slurm.field(job, "NodeList")
        check(slurm.preempt(job) != first, "it wasn't preempted onto another node")
        slurm.wait_steps("result", 1)
        slurm.wait_comment(job)
        slurm.must("scontrol", "requeue", job)
        slurm.again(job)
        slurm.check_ended(job, "result", steps)
        lines = slurm.read(f"{t.work}/began").split()
        check(len(lines) == 6 and lines[0] == "began" and lines[3] == "ended" and lines[1:3] == lines[4:] and lines[2] == "word",
              f"the script's own state: {lines}")
        plain = slurm.submit(["echo plain $0"], name="plain")
        slurm.wait_state(plain, "COMPLETED")
        check("cairn" not in slurm.read(f"{t.work}/plain.out").replace(t.folder, ""), "a job without --cairn is run by it as well")
        _, out, err = slurm.command("srun", "--cairn", "echo", "ran")
        check("sbatch" in err and "ran" not in out, f"srun --cairn: {out} {err}")
        code, _, err = slurm.command("sbatch", "--cairn=often", f"{t.work}/plain.sh")
        check(code != 0 and "seconds" in err, f"sbatch --cairn=often: {code} {err}")
