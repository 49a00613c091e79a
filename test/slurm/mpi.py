"""Slurm: an MPI job of four ranks over two nodes, started by mpiexec within the batch script, by an ordinary user, is preempted onto changing
nodes and ends with the checksums of an undisturbed one. `mpi.py openmpi`: the other MPI. The long form is 20 minutes of work, preempted ten times: its
steps are paced, so that it lasts so long on any machine; the undisturbed one's aren't."""
# ci mpi:
# soak mpi_openmpi: openmpi
# timeout: 600
import os
import time
from cairn_test import Skip, check
from cairn_test.mpi import compiled
from cairn_test.slurm import Cluster

SETTINGS = {
    "mpich": ("export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 MPIR_CVAR_NOLOCAL=1 STENCIL_LEAVE_OPEN=1", ""),
    "openmpi": ("export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0 "
                "OMPI_MCA_btl_tcp_disable_family=6", "--oversubscribe"),
}


def results(slurm, name):
    return sorted(line for line in slurm.read(os.path.join(slurm.t.work, name)).splitlines() if line.startswith(("rank ", "WRONG")))


def last_step(slurm, name):
    lines = [line for line in slurm.read(os.path.join(slurm.t.work, name)).splitlines() if line.startswith("step ")]
    return int(lines[-1].split(":")[0].split()[1]) if lines else -1


def test(t):
    kind = "openmpi" if "openmpi" in t.arguments.names else "mpich"
    program, starter = compiled(t, kind)
    if program is None:
        raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
    # With a pause of 5 ms in each step it lasts 20 minutes, however fast the machine is.
    steps, rounds, pace = (230000, 10, 5000) if t.soak else (1000, 2, 0)
    settings, arguments = SETTINGS[kind]
    with Cluster(t, 4, user=True, more="SlurmctldParameters=preempt_send_user_signal") as slurm:
        finish = os.path.join(t.work, "finish")  # however fast it is, it is there in the last round
        job = [settings, f"export STENCIL_FINISH={finish}", f"exec cairn slurm run --interval 0 -- {starter} {arguments} -n 4 {program} {steps}"]
        options = ["-N2", "--ntasks-per-node=2", "--exclusive", "--signal=B:USR1@60", "-t", "120"]
        with open(finish, "w"):
            pass
        undisturbed = slurm.submit([line.replace("exec cairn slurm run --interval 0 --", "exec env") for line in job], "-N1", "-n4",
                                   name="undisturbed")
        slurm.wait_state(undisturbed, "COMPLETED", "FAILED", timeout=1800)
        expected = results(slurm, "undisturbed.out")
        check(len(expected) == 4, f"undisturbed: {expected} {slurm.read(t.work + '/undisturbed.out')}")
        os.unlink(finish)
        began = time.monotonic()
        number = slurm.submit([f"export STENCIL_PACE={pace}", *job], *options)
        slurm.wait_state(number, "RUNNING")
        seen = {slurm.field(number, "NodeList")}
        for turn in range(rounds):
            before = last_step(slurm, "job.out")
            wanted = min(before + (steps // (rounds + 1) if t.soak else 20), steps - 20)
            t.wait_until(lambda: last_step(slurm, "job.out") >= wanted, f"the job to get from step {before} to {wanted}", 900)
            nodes = slurm.preempt(number)
            seen.add(nodes)
            t.say(f"round {turn + 1}: on {nodes} behind step {last_step(slurm, 'job.out')}, {slurm.field(number, 'Comment')}")
        with open(finish, "w"):
            pass
        slurm.wait_state(number, "COMPLETED", "FAILED", timeout=900)
        said = results(slurm, "job.out")
        check(slurm.state(number) == "COMPLETED" and said == expected, f"{slurm.state(number)}: {said}, undisturbed {expected}")
        check(len(seen) > 1, f"it was on {seen} only")
        t.say(f"{steps} steps in {time.monotonic() - began:.0f} s")
