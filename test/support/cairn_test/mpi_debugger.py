"""The console of `cairn mpi debug`, for tests."""
import json
import subprocess

from cairn_test.mpi_job import expect


class Debugger:
    """A console with answers in JSON; what the program prints is kept."""

    def __init__(self, job, name, program, options=()):
        self.printed, self.job = [], job
        self.process = subprocess.Popen([job.cairn, "mpi", "debug", "--json", *options, name, *program], cwd=job.folder, env=job.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.hello = self.answer("the beginning")

    def answer(self, to):
        while True:
            line = self.process.stdout.readline()
            expect(line, f"the debugger ended at '{to}': {self.process.poll()} {self.process.stderr.read() if not line else ''}")
            told = json.loads(line)
            if "ok" in told:
                return told
            self.printed.append(told)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer(command)

    def do(self, command):
        told = self.ask(command)
        expect(told["ok"], f"{command}: {told}")
        return told

    def lines(self, rank, stream="stdout"):
        return [each["line"] for each in self.printed if each["rank"] == rank and each["stream"] == stream]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()
