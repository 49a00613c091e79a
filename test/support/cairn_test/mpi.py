"""MPI jobs of four ranks: a stencil, compiled here, with and without checkpoints; the bits of its result are compared."""

import os
import shutil

from . import Skip, check, processes, same_as_undisturbed

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "foreign", "mpi", "stencil.c")


def compiled(t, kind):
    """The stencil's path and mpirun's name; (None, None) if this MPI isn't installed."""
    compiler, starter = f"mpicc.{kind}", f"mpirun.{kind}"
    if not shutil.which(compiler) or not shutil.which(starter):
        return None, None
    program = os.path.join(t.folder, "stencil")
    code, out, err = t.run([compiler, "-w", "-O2", "-rdynamic", "-o", program, SOURCE, "-ldl"])
    check(code == 0, f"{compiler}: {out}{err}")
    return program, starter


def job(t, kind, transports, ranks=4):
    """transports: {name: arguments for mpirun}. Each is tested for itself."""
    program, starter = compiled(t, kind)
    if program is None:
        raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
    for name, arguments in transports.items():
        t.say(f"transport: {name}")
        # Files in /tmp come and go while a job begins and ends: what is done after the checkpoint stays done.
        same_as_undisturbed(t, lambda steps: [starter, *arguments, "-n", str(ranks), program, str(steps)], scale=300,
                            seconds=10 if t.soak else 3, timeout=300, at_once=True,
                            before_checkpoint=wait_for_step if name in begun else None)


def lines_of(path):
    with open(path, errors="replace") as file:
        return file.read().splitlines()


def launched_one_by_one(t, program, words):
    """cairn inside a launcher that is outside. words: the launcher and its arguments for four ranks. After a restart nobody is the
    launcher: the ranks' output goes where the restart's does, and MPI_Finalize ends, also for ranks that were in it at the checkpoint."""
    finish = os.path.join(t.work, "finish")
    kept = [f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_")]
    steps, seconds = 400, 6
    native = os.path.join(t.work, "native.out")
    _, status, _ = t.native([*words, program, str(steps)], stdout=native)
    check(os.waitstatus_to_exitcode(status) == 0, f"the undisturbed run: {processes.describe_status(status)}")
    undisturbed = lines_of(native)

    def launch(environment=()):
        out = os.path.join(t.work, "launched.out")
        t.launch(["env", *kept, f"STENCIL_PACE={seconds * 1000000 // steps}", *environment, *words, t.cairn, "launch", program, str(steps)], native=True, terminal="none",
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
        t.sleep(seconds * t.random.uniform(0.05, 0.2))
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

