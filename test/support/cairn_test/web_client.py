"""A page of `cairn mpi debug --web` as far as it speaks HTTP, and the debugger behind it, for tests."""
import http.client
import json
import queue
import re
import socket
import subprocess
import threading
import time

from cairn_test.mpi_job import expect


class Web:
    """The debugger with its console, which is spoken to by `console`; in JSON."""

    def __init__(self, job, arguments):
        self.process = subprocess.Popen([job.cairn, "mpi", "debug", "--web", "--json", *arguments], cwd=job.folder, env=job.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.printed = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        first = self.answer()
        self.url = first["url"]
        self.host, self.port, self.token = re.fullmatch(r"http://(127\.0\.0\.1):(\d+)/([0-9a-f]{32})/", self.url).groups()
        self.port = int(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def read(self):
        for line in self.process.stdout:
            self.printed.put(json.loads(line))
        self.printed.put(None)

    def answer(self, timeout=60):
        """The console's next line that isn't the program's."""
        while True:
            told = self.printed.get(timeout=timeout)
            expect(told is not None, f"the debugger ended: {self.process.poll()} {self.process.stderr.read() if told is None else ''}")
            if "stream" not in told:
                return told

    def console(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers and body of any request."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def ask(self, what, **given):
        """As the page does: status and JSON."""
        status, _, body = self.request("POST", f"/{self.token}/{what}", json.dumps(given), {"Content-Type": "application/json"})
        return status, json.loads(body)

    def command(self, line):
        return self.ask("command", line=line)[1]


class Events:
    """What is pushed to one page."""

    def __init__(self, web):
        self.seen, self.position, self.over = [], 0, False
        self.changed = threading.Condition()
        self.connection = http.client.HTTPConnection(web.host, web.port, timeout=120)
        self.connection.request("GET", f"/{web.token}/events")
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        expect(self.answer.status == 200 and self.answer.headers["Content-Type"] == "text/event-stream", self.answer.headers)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        name = None
        try:
            for line in self.answer:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                if line.startswith("data: "):
                    with self.changed:
                        self.seen.append((name, json.loads(line[6:])))
                        self.changed.notify_all()
        except (OSError, ValueError, AttributeError):
            pass
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def wait(self, name, fits=lambda _: True, timeout=60):
        """The next one of this name, behind the one waited for before, for which this is true."""
        until = time.monotonic() + timeout
        with self.changed:
            while True:
                for at in range(self.position, len(self.seen)):
                    if self.seen[at][0] == name and fits(self.seen[at][1]):
                        self.position = at + 1
                        return self.seen[at][1]
                left = until - time.monotonic()
                expect(left > 0 and not self.over, f"no '{name}' came: {self.seen[self.position:]}")
                self.changed.wait(left)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
