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
                            seconds=10 if t.soak else 3, timeout=300, at_once=True)


def lines_of(path):
    with open(path, errors="replace") as file:
        return file.read().splitlines()


def launched_one_by_one(t, program, words, folder=None):
    """cairn inside a launcher that is outside. words: the launcher and its arguments for four ranks. After a restart nobody is the
    launcher: the ranks' output goes where the restart's does, and MPI_Finalize ends, also for ranks that were in it at the checkpoint.
    folder: of the launcher's, gone with it. Returns what launches a job: steps, environment -> program, path of its output."""
    finish = os.path.join(t.work, "finish")
    kept = [f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_")]
    steps, seconds = 400, 6
    native = os.path.join(t.work, "native.out")
    _, status, _ = t.native([*words, program, str(steps)], stdout=native)
    check(os.waitstatus_to_exitcode(status) == 0, f"the undisturbed run: {processes.describe_status(status)}")
    undisturbed = lines_of(native)

    def launch(steps, environment):
        out = os.path.join(t.work, "launched.out")
        job = t.launch(["env", *kept, *environment, *words, t.cairn, "launch", program, str(steps)], native=True, terminal="none",
                       stdout=out)
        t.wait_members(4)
        return job, out

    def launch_to_its_end():
        """Three ranks have called MPI_Finalize, the fourth hasn't."""
        _, out = launch(20, [f"STENCIL_FINISH={finish}"])
        t.wait_until(lambda: "rank 3:" in " ".join(lines_of(out)), "the results", 180)
        return out

    def finish_by(text):
        with open(finish + ".new", "w") as file:
            file.write(text)
        os.rename(finish + ".new", finish)

    def kill(number):
        t.pull_the_plug(number % 2 == 1)
        if folder and os.path.exists(folder):
            shutil.rmtree(folder)

    def restart(number, out):
        """Pipes to the launcher become the first restart's standard output, a file, and that is what they are from then on."""
        program = t.restart(terminal="none", name=f"restart {number + 1}")
        t.say(f"restart {number + 1}")
        return program, program.errors.replace(".err", ".out") if number == 0 else out

    _, out = launch(steps, [f"STENCIL_PACE={seconds * 1000000 // steps}"])
    t.wait_until(lambda: "step 0:" in " ".join(lines_of(out)), "the first step")
    seen = set()
    for number in range(t.rounds):
        t.sleep(seconds * t.random.uniform(0.05, 0.2))
        t.checkpoint()
        seen.update(lines_of(out))
        kill(number)
        job, out = restart(number, out)
    job.expect_exit(0, 180)
    last = lines_of(out)
    seen.update(last)
    results = [line for line in undisturbed if line.startswith("rank ")]
    check(len(results) == 4 and last[-4:] == results, f"the results are {last[-4:]}, undisturbed {results}")
    check(set(undisturbed) <= seen, f"lines that never came: {sorted(set(undisturbed) - seen)[:5]}")
    check(not t.members(), f"still there: {t.members()}")

    out = launch_to_its_end()
    for number in range(t.rounds):
        t.sleep(0.3)
        t.checkpoint()
        kill(number)
        job, out = restart(number, out)
    t.sleep(0.3)
    check(len(t.members()) == 4, f"not all are waiting: {t.members()}")
    finish_by("")
    job.expect_exit(0, 60)

    # A rank that dies, or calls MPI_Abort, takes the others with it, as under mpiexec.
    os.remove(finish)
    launch_to_its_end()
    t.checkpoint()
    for abort in (True, False):
        kill(0)
        if os.path.exists(finish):
            os.remove(finish)
        job, _ = restart(0, out)
        if abort:
            finish_by("abort")
        else:
            victim = max(t.members(), key=lambda each: each["pid"])
            os.kill(victim.get("real", victim["pid"]), 9)
        job.exit_status(60)
        why = "has aborted the job (exit code 5)" if abort else "has ended without MPI_Finalize"
        check("the other ranks are ended" in t.text_of(job) and why in t.text_of(job), f"nothing is said: {t.text_of(job)}")
        check(not t.members(), f"still there: {t.members()}")
    return launch
