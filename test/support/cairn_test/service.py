"""`cairn service run` under what stands for systemd: a journal at its standard output, a socket for its notifications, SIGTERM at a stop
and SIGKILL for everybody at a crash. Its three programs are one computation."""
import os
import signal
import socket
import threading

from . import check, processes

# Numbers that another program counts, into a file that is kept open: each of them once.
SERVER = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
caller, _ = listener.accept()
number = 0
while True:
    number += len(caller.recv(1))
    caller.sendall(b"%d\\n" % number)
"""
CLIENT = """
import os, socket, sys, time
caller = socket.socket(socket.AF_UNIX)
while True:
    try:
        caller.connect(sys.argv[1])
        break
    except OSError:
        time.sleep(0.05)
answers = caller.makefile()
numbers = open("numbers", "a")
while not os.path.exists("end"):
    caller.send(b"x")
    numbers.write(answers.readline())
    numbers.flush()
    time.sleep(0.05)
sys.exit(int(open("end").read()))
"""
SCRIPT = "i=0; while [[ ! -e end ]]; do i=$((i + 1)); echo line $i; sleep 0.1; done"


class Journal:
    """What a service prints: it is connected to a stream socket, whose other end isn't saved."""

    def __init__(self, path):
        self.path, self.text = path, ""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        while data := stream.recv(4096):
            self.text += data.decode()

    def connect(self):
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(self.path)
        stream.shutdown(socket.SHUT_RD)
        return stream


class Service:
    def __init__(self, t, name="demo", **settings):
        self.t, self.name, self.pid, self.told = t, name, None, []
        self.journal = Journal(os.path.join(t.folder, "journal"))
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(os.path.join(t.folder, "notify"))
        self.notifications.setblocking(False)
        self.env = {key: value for key, value in t.env.items() if not key.startswith("CAIRN_") or key.startswith("CAIRN_TEST")}
        self.env |= {"XDG_CONFIG_HOME": os.path.join(t.folder, "config"), "XDG_STATE_HOME": os.path.join(t.folder, "state"),
                     "RUNTIME_DIRECTORY": t.env["CAIRN_RUNDIR"], "NOTIFY_SOCKET": os.path.join(t.folder, "notify")}
        self.ckptdir = os.path.join(t.folder, "state", "cairn", name)
        self.file = os.path.join(t.folder, "config", "cairn", "services", name + ".conf")
        os.makedirs(os.path.dirname(self.file))
        self.write(**settings)

    def write(self, programs=None, **settings):
        for name, text in (("server.py", SERVER), ("client.py", CLIENT)):
            with open(os.path.join(self.t.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        meeting = os.path.join(self.t.folder, "meeting")
        programs = programs or [f'/usr/bin/python3 {self.t.folder}/client.py "{meeting}"', f"/usr/bin/python3 {self.t.folder}/server.py {meeting}",
                                f"bash -c '{SCRIPT}'"]
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(f"# a service of several programs\ndirectory = {self.t.work}\nids={self.t.ids}\n")
            file.writelines(f"program = {program}\n" for program in programs)
            file.writelines(f"{key.replace('_', '-')}={value}\n" for key, value in settings.items())

    # ---- what systemd does -----------------------------------------------------------------------------------------

    def spawn(self):
        stream = self.journal.connect()
        self.pid = processes.spawn([self.t.cairn, "service", "run", "--user", self.name], env=self.env, cwd="/", stdin="/dev/null",
                                   stdout=stream.fileno(), stderr=stream.fileno(), new_session=True)
        stream.close()

    def start(self):
        self.told.clear()
        self.spawn()
        self.wait_told("READY=1")
        return self

    def wait_told(self, text, timeout=60):
        def told():
            try:
                while True:
                    self.told.append(self.notifications.recv(4096).decode())
            except BlockingIOError:
                pass
            check(processes.status_of(self.pid) is None or any(text in each for each in self.told),
                  f"the service has ended before it told {text}:\n{self.journal.text[-3000:]}")
            return any(text in each for each in self.told)
        self.t.wait_until(told, f"the service to tell {text}, not only {self.told}\n{self.journal.text[-2000:]}", timeout)

    def ended(self, timeout=60):
        """Its exit code, when it has ended."""
        self.t.wait_until(lambda: processes.status_of(self.pid) is not None, f"the service to end\n{self.journal.text[-2000:]}", timeout)
        return os.waitstatus_to_exitcode(processes.status_of(self.pid))

    def wait_said(self, text):
        self.t.wait_until(lambda: text in self.journal.text, f"'{text}' in the journal")

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        code = self.ended()
        check(code == 0, f"the stopped service ended with {code}:\n{self.journal.text[-3000:]}")
        self.t.wait_until(lambda: not self.t.processes_left(), f"the programs to have ended: {self.t.processes_left()}")

    def crash(self):
        processes.kill_tree()

    # ---- what is asked of it ---------------------------------------------------------------------------------------

    def command(self, verb, *options):
        return self.t.command("service", verb, "--user", self.name, *options, env=self.env)

    def numbers(self):
        path = os.path.join(self.t.work, "numbers")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [int(line) for line in file]

    def goes_on(self, what, more=5):
        """The programs count on, and each number is there once."""
        before = len(self.numbers())
        self.t.wait_until(lambda: len(self.numbers()) >= before + more, f"the programs to go on {what}\n{self.journal.text[-2000:]}")
        numbers = self.numbers()
        check(numbers == list(range(1, len(numbers) + 1)), f"{what}: the numbers have a gap or a repetition: {numbers}")
        # While a checkpoint is taken there is a copy of each program.
        self.t.wait_until(lambda: processes.capture() is None, "the checkpoint to have been taken")
        running = self.t.programs_running()
        check(running == {"client": 1, "server": 1, "bash": 1}, f"{what}: there run {running}")
