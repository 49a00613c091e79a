"""`cairn mpi debug --gdb`: a session at gdb, from a wrong result to the line that made it; gdb's own steps and breakpoints between two events, the whole job
(`--live`), a way that is given up, and a gdb that is killed."""
import os
import re
import signal
import subprocess
import time

from cairn_test.mpi_job import expect


class AtGdb:
    """What somebody types at gdb, and what is to be read behind each line."""

    def __init__(self, job, *arguments):
        self.deadline = job.deadline
        self.process = subprocess.Popen([job.cairn, "mpi", "debug", "--gdb", *arguments], cwd=job.folder, env=dict(job.env, HOME=job.folder), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.prompt, self.text = "", ""

    def read(self):
        """Up to the next prompt."""
        until = time.monotonic() + self.deadline
        while True:
            found = re.search(r"\(gdb ([^)]*)\) $", self.text)
            if found:
                told, self.prompt, self.text = self.text[:found.start()], found[1], ""
                return told
            expect(time.monotonic() < until, f"no prompt within {self.deadline} s: {self.text[-2000:]}")
            more = self.process.stdout.read()
            expect(more != b"", f"gdb has ended: {self.text[-2000:]}")
            self.text += (more or b"").decode()
            time.sleep(0.002)

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def do(self, line):
        self.send(line)
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.send("quit")
        expect(self.process.wait(60) == 0, f"exit code {self.process.returncode}")


def to_the_line(job):
    program = [job.program("planted"), "upstream"]
    job.record(4, "upstream", program, options=["--contents"])
    with AtGdb(job, "upstream", *program) as at:
        told = at.read()
        expect("4 ranks of" in told and "main (" in told and at.prompt == "0:0", (at.prompt, told))
        told = at.do("to 0:end")
        expect("[0] result 103" in told and "MPI_Finalize" in told and at.prompt == "0:3", told)
        for rank in (3, 2, 1):
            told = at.do("back" if rank != 2 else "mpi back")
            expect("along " in told and at.prompt.startswith(f"{rank}:"), (at.prompt, told))
        expect("= 100" in at.do("print part[1]"), "part[1]")
        told = at.do("mpi watch part[1]")
        expect("1 became 100" in told and at.prompt == "1:0", told)
        # From there on by gdb's own means, in the copy.
        expect("= 1" in at.do("print part[1]"), "part[1] before")
        at.do("watch -l part[1]")
        told = at.do("continue")
        expect(re.search(r"Old value = 1\s+New value = 100", told) and "planted.c" in told, told)
        at.do("delete")
        told = at.do("continue")
        expect("as far as the copy goes" in told and "planted.c" in told and at.prompt == "1:0", told)
        # What was changed there is forgotten.
        at.do("set variable part[1] = 5")
        at.do("mpi step")
        expect(at.prompt == "1:1" and "= 100" in at.do("print part[1]"), "part[1] behind the first event")
        told = at.do("bt")
        expect(["receive" in told, "upstream" in told, "main" in told, "MPI_Recv ()" in told] == [True, True, True, False], told)
        at.do("reverse-step")
        expect(at.prompt == "1:0", at.prompt)
        at.do("rank 2")
        expect(at.prompt == "2:0", at.prompt)
        expect("there is no command 'nosuch'" in at.do("mpi nosuch"), "nosuch")
        expect("mpi focus RANK" in at.do("mpi gdb"), "gdb in gdb")
        expect("ranks are 0 to 3" in at.do("to 9:1"), "to 9:1")
        expect("what-if" in at.do("mpi help"), "help")
        at.end()


def live(job):
    """From a record without contents."""
    program = [job.program("planted"), "upstream"]
    job.record(4, "together", program)
    with AtGdb(job, "--live", "together", *job.mpiexec(4), *program) as at:
        at.read()
        at.do("to 0:2")
        expect(at.prompt == "0:2" and "upstream" in at.do("bt"), at.prompt)
        told = at.do("back")
        expect("along rank 3" in told and at.prompt == "3:1" and "= 1" in at.do("print part[1]"), told)
        expect("ranks that run alone" in at.do("mpi watch part[1]") and at.prompt == "3:1", "watch")
        at.do("reverse-step")
        expect(at.prompt == "3:0", at.prompt)
        at.end()


def given_up(job):
    program = [job.program("paced"), "400"]  # rounds of 2 ms
    job.record(2, "paced", program, options=["--contents"])
    with AtGdb(job, "paced", *program) as at:
        at.read()
        at.send("to 0:end")
        time.sleep(0.3)
        os.killpg(at.process.pid, signal.SIGINT)
        told = at.read()
        expect("interrupted" in told and at.prompt == "0:0", (at.prompt, told))
        expect("main (" in at.do("bt"), "it stands where it stood")
        told = at.do("to 0:end")
        expect(at.prompt == "0:401", (at.prompt, told))
        # Without its gdb the debugger ends.
        children = subprocess.run(["pgrep", "-P", str(at.process.pid), "-x", "gdb"], capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(children[0]), signal.SIGKILL)
        expect(at.process.wait(60) == 0, f"exit code {at.process.returncode}")


def wrong(job):
    program = [job.program("planted"), "upstream"]
    _, err = job.run([job.cairn, "mpi", "debug", "--gdb", "--json", "upstream", *program], code=2)
    expect("--gdb goes without" in err, err)
    _, err = job.run([job.cairn, "mpi", "debug", "--gdb", "upstream", *program], code=None, env={"PATH": f"{os.path.dirname(job.cairn)}"})
    expect("gdb can't be started" in err, err)


def test(job, given):
    to_the_line(job)
    live(job)
    given_up(job)
    wrong(job)
