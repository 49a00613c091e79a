"""cairn inside a launcher that is outside: four MPI ranks, each launched for itself into one session. After a restart nobody is the
launcher: the ranks' output goes where the restart's does, and MPI_Finalize ends, also for ranks that were in it at the checkpoint."""

import os
import shutil

from . import Skip, check, processes
from .mpi import compiled, launchers_folder, transports


def lines_of(path):
    with open(path, errors="replace") as file:
        return file.read().splitlines()


class RanksOnTheirOwn:
    def __init__(self, t, kind):
        self.t = t
        self.program, self.starter = compiled(t, kind)
        if self.program is None:
            raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
        self.transports = transports(t, kind)
        self.finish = os.path.join(t.work, "finish")
        self.out = os.path.join(t.work, "launched.out")

    def all_goes_well(self):
        for transport in self.transports:
            self.goes_on(transport)
        self.waits_in_finalize()
        self.fails_together()

    def launch(self, steps, environment, transport="default"):
        t = self.t
        kept = [f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_")]
        job = t.launch(["env", *kept, *environment, self.starter, *self.transports[transport], "-n", "4", t.cairn, "launch", self.program,
                        str(steps)], native=True, terminal="none", stdout=self.out)
        t.wait_members(4)
        return job

    def launch_to_its_end(self):
        """Three ranks have called MPI_Finalize, the fourth waits for a file."""
        if os.path.exists(self.finish):
            os.remove(self.finish)
        self.launch(20, [f"STENCIL_FINISH={self.finish}"])
        self.t.wait_until(lambda: "rank 3:" in " ".join(lines_of(self.out)), "the results", 180)

    def end_by(self, text):
        with open(self.finish + ".new", "w") as file:
            file.write(text)
        os.rename(self.finish + ".new", self.finish)

    def kill(self, number):
        """With what is left of the launcher."""
        self.t.pull_the_plug(number % 2 == 1)
        shutil.rmtree(launchers_folder(self.t), ignore_errors=True)

    def restart(self, number, out):
        """Pipes to the launcher become the first restart's standard output, a file, and that is what they are from then on."""
        program = self.t.restart(terminal="none", name=f"restart {number + 1}")
        self.t.say(f"restart {number + 1}")
        return program, program.errors.replace(".err", ".out") if number == 0 else out

    def goes_on(self, transport):
        """Checkpoints, kills and restarts on the way; the results are those of an undisturbed run."""
        t = self.t
        t.say(f"transport: {transport}")
        steps, seconds = 400, 6
        native = os.path.join(t.work, "native.out")
        _, status, _ = t.native([self.starter, *self.transports[transport], "-n", "4", self.program, str(steps)], stdout=native)
        check(os.waitstatus_to_exitcode(status) == 0, f"the undisturbed run: {processes.describe_status(status)}")
        undisturbed = lines_of(native)
        self.launch(steps, [f"STENCIL_PACE={seconds * 1000000 // steps}"], transport)
        out = self.out
        t.wait_until(lambda: "step 0:" in " ".join(lines_of(out)), "the first step")
        seen = set()
        for number in range(t.rounds):
            t.sleep(seconds * t.random.uniform(0.05, 0.2))
            t.checkpoint()
            seen.update(lines_of(out))
            self.kill(number)
            job, out = self.restart(number, out)
        job.expect_exit(0, 180)
        last = lines_of(out)
        seen.update(last)
        results = [line for line in undisturbed if line.startswith("rank ")]
        check(len(results) == 4 and last[-4:] == results, f"the results are {last[-4:]}, undisturbed {results}")
        check(set(undisturbed) <= seen, f"lines that never came: {sorted(set(undisturbed) - seen)[:5]}")
        check(not t.members(), f"still there: {t.members()}")

    def waits_in_finalize(self):
        t = self.t
        self.launch_to_its_end()
        out = self.out
        for number in range(t.rounds):
            t.sleep(0.3)
            t.checkpoint()
            self.kill(number)
            job, out = self.restart(number, out)
        t.sleep(0.3)
        check(len(t.members()) == 4, f"not all are waiting: {t.members()}")
        self.end_by("")
        job.expect_exit(0, 60)

    def fails_together(self):
        """A rank that calls MPI_Abort, or dies, takes the others with it, as under its launcher."""
        t = self.t
        self.launch_to_its_end()
        t.checkpoint()
        for abort in (True, False):
            self.kill(0)
            if os.path.exists(self.finish):
                os.remove(self.finish)
            job, _ = self.restart(0, self.out)
            if abort:
                self.end_by("abort")
            else:
                victim = max(t.members(), key=lambda each: each["pid"])
                os.kill(victim.get("real", victim["pid"]), 9)
            job.exit_status(60)
            why = "has aborted the job (exit code 5)" if abort else "has ended without MPI_Finalize"
            check("the other ranks are ended" in t.text_of(job) and why in t.text_of(job), f"nothing is said: {t.text_of(job)}")
            check(not t.members(), f"still there: {t.members()}")
