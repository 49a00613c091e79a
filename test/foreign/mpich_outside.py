#!/usr/bin/python3
"""cairn inside mpiexec: four MPICH ranks, each launched for itself into one session, their launcher outside. After a restart nobody is
mpiexec: their output goes where the restart's does, and MPI_Finalize ends, also for ranks that were in it at the checkpoint."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, check, main, processes
from cairn_test.mpi import compiled


def lines_of(path):
    with open(path, errors="replace") as file:
        return file.read().splitlines()


def test(t):
    program, starter = compiled(t, "mpich")
    if program is None:
        raise Skip("MPICH isn't installed")
    finish = os.path.join(t.work, "finish")
    # The transport of the other test's that an ordinary user has, too.
    words = [starter, "-genv", "UCX_TLS", "posix,self", "-n", "4"]
    kept = [f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_")]
    steps = 400

    def wanted():
        out = os.path.join(t.work, "native.out")
        _, status, taken = t.native([*words, program, str(steps)], stdout=out)
        check(os.waitstatus_to_exitcode(status) == 0, f"the undisturbed run: {processes.describe_status(status)}")
        return taken, lines_of(out)

    taken, undisturbed = wanted()
    while taken < 3:
        steps = int(steps * min(8.0, 4 / max(taken, 0.1)))
        taken, undisturbed = wanted()
    t.say(f"undisturbed, {steps} steps: {taken:.1f} s")

    def launch(environment=()):
        out = os.path.join(t.work, "launched.out")
        t.launch(["env", *kept, *environment, *words, t.cairn, "launch", program, str(steps)], native=True, terminal="none",
                 stdout=out)
        t.wait_until(lambda: os.path.exists(out) and "step 0:" in " ".join(lines_of(out)), "the first step")
        t.wait_members(4)
        return out

    def restart(number, out):
        """Pipes to the launcher become the first restart's standard output, a file, and that is what they are from then on."""
        program = t.restart(terminal="none", name=f"restart {number + 1}")
        t.say(f"restart {number + 1}")
        return program, program.errors.replace(".err", ".out") if number == 0 else out

    out = launch()
    seen = set()
    for number in range(t.rounds):
        t.sleep(taken * t.random.uniform(0.05, 0.2))
        t.checkpoint()
        seen.update(lines_of(out))
        t.pull_the_plug(number % 2 == 1)
        job, out = restart(number, out)
    job.expect_exit(0, 180)
    last = lines_of(out)
    seen.update(last)
    results = [line for line in undisturbed if line.startswith("rank ")]
    check(len(results) == 4 and last[-4:] == results, f"the results are {last[-4:]}, undisturbed {results}")
    check(set(undisturbed) <= seen, f"lines that never came: {sorted(set(undisturbed) - seen)[:5]}")
    check(not t.members(), f"still there: {t.members()}")

    # Three ranks have called MPI_Finalize, the fourth hasn't.
    out = launch([f"STENCIL_FINISH={finish}"])
    t.wait_until(lambda: "rank 3:" in " ".join(lines_of(out)), "the results", 180)
    for number in range(t.rounds):
        t.sleep(0.3)
        t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        job, out = restart(number, out)
    t.sleep(0.3)
    check(len(t.members()) == 4, f"not all are waiting: {t.members()}")
    with open(finish, "w"):
        pass
    job.expect_exit(0, 60)

    # A rank that dies takes the others with it, as under mpiexec.
    os.remove(finish)
    out = launch([f"STENCIL_FINISH={finish}"])
    t.wait_until(lambda: "rank 3:" in " ".join(lines_of(out)), "the results", 180)
    t.checkpoint()
    t.pull_the_plug()
    job, out = restart(0, out)
    victim = max(t.members(), key=lambda each: each["pid"])
    os.kill(victim.get("real", victim["pid"]), 9)
    job.exit_status(60)
    check("the other ranks are ended" in t.text_of(job), f"nothing is said: {t.text_of(job)}")
    check(not t.members(), f"still there: {t.members()}")


main(test)
