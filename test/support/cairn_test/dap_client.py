"""An editor that speaks the Debug Adapter Protocol to `cairn mpi debug --dap`, for tests."""
import json
import os
import select
import subprocess
import time

from cairn_test.mpi_job import expect


class Editor:
    def __init__(self, job, arguments=()):
        self.process = subprocess.Popen([job.cairn, "mpi", "debug", "--dap", *arguments], cwd=job.folder, env=job.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.sequence, self.bytes, self.events, self.answers = 0, b"", [], {}
        self.deadline = job.deadline

    def send(self, command, **arguments):
        self.sequence += 1
        body = json.dumps({"seq": self.sequence, "type": "request", "command": command, "arguments": arguments}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self.sequence

    def read(self, patience):
        """One message more into what has come."""
        until = time.monotonic() + patience
        while True:
            head, found, rest = self.bytes.partition(b"\r\n\r\n")
            if found:
                size = int(head.split(b":")[1])
                if len(rest) >= size:
                    message, self.bytes = json.loads(rest[:size]), rest[size:]
                    break
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            expect(ready, f"nothing came for {patience} s; so far {self.events[-3:]}")
            more = os.read(self.process.stdout.fileno(), 65536)
            expect(more, f"the adapter ended: {self.process.poll()} {self.process.stderr.read() if not more else ''}")
            self.bytes += more
        if message["type"] == "response":
            self.answers[message["request_seq"]] = message
        else:
            self.events.append(message)

    def answer(self, sequence):
        while sequence not in self.answers:
            self.read(self.deadline)
        return self.answers.pop(sequence)

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def do(self, command, **arguments):
        told = self.ask(command, **arguments)
        expect(told["success"], f"{command}: {told}")
        return told.get("body", {})

    def wait(self, event):
        """The next event of this kind; those before it are dropped, but for output."""
        while True:
            for i, each in enumerate(self.events):
                if each["event"] == event:
                    self.events = [one for one in self.events[:i] if one["event"] == "output"] + self.events[i + 1:]
                    return each["body"]
            self.read(self.deadline)

    def move(self, command, **arguments):
        """A movement, to where it stops."""
        self.do(command, **arguments)
        return self.wait("stopped")

    def printed(self, category):
        return "".join(each["body"]["output"] for each in self.events if each["event"] == "output" and each["body"]["category"] == category)

    def stack(self, rank):
        return self.do("stackTrace", threadId=rank + 1)["stackFrames"]

    def variables(self, frame, scope="Locals"):
        scopes = {each["name"]: each["variablesReference"] for each in self.do("scopes", frameId=frame)["scopes"]}
        return {each["name"]: each for each in self.do("variables", variablesReference=scopes[scope])["variables"]}

    def parts(self, variable):
        return {each["name"]: each for each in self.do("variables", variablesReference=variable["variablesReference"])["variables"]}

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
