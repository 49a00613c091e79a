"""A cairn session of the test's own: launch, checkpoint, pull the plug, restart from the generated script."""

import json
import os
import re
import shutil
import tempfile
import time

from . import processes
from .terminal import Terminal

SLOW = float(os.environ.get("CAIRN_TEST_SLOW", "1"))  # factor for every deadline: sanitizers, busy machines


class Again(Exception):
    """Something outside of the test has made this run worthless: it begins anew, five times at most."""


class Failure(Exception):
    pass


class Program:
    """What was launched, or restarted, on one terminal."""

    def __init__(self, session, pid, terminal, name):
        self.session, self.pid, self.terminal, self.name = session, pid, terminal, name
        if terminal:
            terminal.started()

    def expect(self, pattern, timeout=30.0):
        """Waits until the terminal shows the regular expression behind what was expected last."""
        if isinstance(pattern, str):
            pattern = pattern.encode()
        found = []

        def shown():
            result = self.terminal.find(pattern)
            if not result and self.terminal.ended:
                raise Failure(f"{self.name}: terminal closed while {pattern!r} was awaited; it showed:\n"
                              f"{self.terminal.tail()}")
            found.append(result)
            return result

        self.session.wait_until(shown, f"{self.name} to print {pattern!r}", timeout)
        return found[-1]

    def send(self, text):
        self.terminal.send(text)

    def exit_status(self, timeout=60.0):
        """Wait status of the process that was started (for a restart: of the restart script)."""
        self.session.wait_until(lambda: processes.status_of(self.pid) is not None, f"{self.name} to end", timeout)
        if self.terminal:
            self.terminal.drain()
        return processes.status_of(self.pid)

    def expect_exit(self, code=0, timeout=60.0):
        status = self.exit_status(timeout)
        if os.waitstatus_to_exitcode(status) != code:
            raise Failure(f"{self.name}: {processes.describe_status(status)}, {code} was expected"
                          + self.session.text_of(self))


class Beside:
    """A command that runs beside the test. Not subprocess.Popen: whoever waits here collects every child that has ended (processes.reap), and
    Popen.poll() says exit code 0 of one that somebody else has collected."""

    def __init__(self, pid):
        self.pid = pid
        self._status = None

    def code(self):
        """The exit code, -N if signal N killed it, None while it runs."""
        if self._status is None:
            self._status = processes.status_of(self.pid)
            processes.forget(self.pid)
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)


class Session:
    def __init__(self, build, ids, name="default", folder=None, keep_folder=False):
        self.build, self.ids, self.name = build, ids, name
        self.owns_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="cairn-test-", dir=os.environ.get("CAIRN_TEST_TMP", "/tmp"))
        self.keep_folder = keep_folder
        self.ckptdir = os.path.join(self.folder, "ckpt")
        self.work = os.path.join(self.folder, "work")
        for path in (self.ckptdir, self.work):
            os.makedirs(path, exist_ok=True)
        self.env = dict(os.environ, CAIRN_RUNDIR=os.path.join(self.folder, "run"), CAIRN_SESSION=name,
                        CAIRN_CKPTDIR=self.ckptdir, LC_ALL="C.UTF-8", TERM="xterm")
        self.env.pop("LD_PRELOAD", None)
        self.programs = []
        self.counter = 0
        self.cairn = os.path.join(build, "bin", "cairn")

    # ---- waiting -------------------------------------------------------------------------------------------------

    def pump(self, seconds=0.01):
        processes.reap()
        busy = False
        for program in self.programs:
            if program.terminal:
                busy = program.terminal.pump(0.0) or busy
        if not busy and seconds:
            time.sleep(seconds)

    def wait_until(self, condition, what, timeout=30.0):
        limit = time.monotonic() + timeout * SLOW
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > limit:
                raise Failure(f"waited {timeout * SLOW:.0f} s for {what}")
            self.pump()

    def sleep(self, seconds):
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            self.pump(min(0.01, left))

    # ---- commands ------------------------------------------------------------------------------------------------

    def command(self, *arguments, timeout=60.0, env=None, cwd=None):
        """Runs `cairn ARGUMENTS`; (exit code, stdout, stderr)."""
        return self.run([self.cairn, *arguments], timeout=timeout, env=env, cwd=cwd)

    def run(self, argv, timeout=60.0, env=None, cwd=None):
        self.counter += 1
        out, err = (os.path.join(self.folder, f"command.{self.counter}.{kind}") for kind in ("out", "err"))
        pid = processes.spawn(argv, env=env or self.env, cwd=cwd or self.work, stdin="/dev/null", stdout=out, stderr=err,
                              new_session=True)
        text = " ".join(map(os.path.basename, argv))
        try:
            self.wait_until(lambda: processes.status_of(pid) is not None, f"'{text}' to end", timeout)
        except Failure as failure:
            raise Failure(f"{failure}\nstdout: {self._read(out)}\nstderr: {self._read(err)}\n"
                          f"{processes.report(pid)}") from None
        status = processes.status_of(pid)
        processes.forget(pid)
        if os.WIFSIGNALED(status):
            raise Failure(f"'{text}' was {processes.describe_status(status)}: {self._read(err)}")
        return os.WEXITSTATUS(status), self._read(out), self._read(err)

    def begin(self, *arguments):
        """Runs `cairn ARGUMENTS` beside the test; a Beside."""
        return Beside(processes.spawn([self.cairn, *arguments], env=self.env, cwd=self.work, stdin="/dev/null", stdout="/dev/null",
                                      stderr="/dev/null", new_session=True))

    def must(self, *arguments, timeout=60.0):
        code, out, err = self.command(*arguments, timeout=timeout)
        if code != 0:
            raise Failure(f"'cairn {' '.join(arguments)}' ended with {code}: {err or out}")
        return out

    def status(self):
        """`cairn status --json`, None if no coordinator answers."""
        code, out, err = self.command("status", "--json")
        if code == 5:
            return None
        if code != 0:
            raise Failure(f"'cairn status --json' ended with {code}: {err or out}")
        return json.loads(out)

    def members(self):
        """The processes of `cairn list --json`."""
        text = self.must("list", "--json").strip()
        try:
            whole = json.loads(text)
            found = whole["processes"] if isinstance(whole, dict) else whole
        except json.JSONDecodeError:
            found = [json.loads(line) for line in text.splitlines() if line]
        return [each for each in found if "pid" in each]

    # ---- programs ------------------------------------------------------------------------------------------------

    def launch(self, argv, *, terminal="leader", stdout=None, stdin=None, env=None, options=(), name=None, native=False,
               wrapper=()):
        """Starts argv under `cairn launch` (or without it: native); `wrapper` is a command that execs what follows it.

        terminal: "leader": it leads the session of a new terminal. "none": no terminal, output into a file."""
        full = [*wrapper, *argv] if native else [*wrapper, self.cairn, "launch", *options, "--", *argv]
        environment = dict(self.env, **(env or {}))
        if native:
            environment = {key: value for key, value in environment.items() if not key.startswith("CAIRN_") or key.startswith("CAIRN_TEST")}
        name = name or os.path.basename(argv[0])
        if terminal == "leader":
            tty = Terminal()
            pid = processes.spawn(full, env=environment, cwd=self.work, stdin=stdin, stdout=stdout, terminal=tty.path)
        else:
            tty = None
            self.counter += 1
            sink = os.path.join(self.folder, f"program.{self.counter}.err")
            pid = processes.spawn(full, env=environment, cwd=self.work, stdin=stdin or "/dev/null",
                                  stdout=stdout or sink.replace(".err", ".out"), stderr=sink, new_session=True)
        program = Program(self, pid, tty, name)
        program.sink = None if tty else sink  # what it says on stderr
        self.programs.append(program)
        return program

    def has_members(self, count):
        status = self.status()
        return status and status["state"] == "running" and self._live(status) >= count

    def wait_members(self, count, timeout=20.0):
        self.wait_until(lambda: self.has_members(count), f"{count} members in the group", timeout)

    @staticmethod
    def _live(status):
        value = status.get("processes", 0)
        return value if isinstance(value, int) else len(value)

    def checkpoint(self, *options, timeout=60.0):
        """Takes a checkpoint and returns its folder."""
        before = self.latest()
        self.must("checkpoint", *options, timeout=timeout)
        after = self.latest()
        if after is None or after == before:
            raise Failure(f"'cairn checkpoint' ended with 0, but {self.ckptdir}/latest leads to {after}")
        return after

    def latest(self):
        link = os.path.join(self.ckptdir, "latest")
        return os.path.realpath(link) if os.path.islink(link) else None

    def coordinator_pid(self):
        try:
            with open(os.path.join(self.env["CAIRN_RUNDIR"], self.name, "coordinator.pid")) as file:
                pid = int(file.read())
        except (OSError, ValueError):
            return None
        return pid if processes.stat(pid) else None

    def pull_the_plug(self, spare_coordinator=False):
        """kill -9 for everything below this test. Terminals are read to their end first."""
        keep = {self.coordinator_pid()} if spare_coordinator else set()
        processes.kill_tree(keep)
        for program in self.programs:
            if program.terminal:
                program.terminal.drain()
                program.terminal.hang_up()
        self.programs = []

    def restart(self, *options, terminal="leader", script=None, name="restart", ids=None, wait=True, env=None,
                timeout=120.0, stderr_to_file=True, size=(24, 80)):
        """Runs restart.sh on a new terminal. With wait: until the group runs."""
        script = script or os.path.join(self.ckptdir, "restart.sh")
        if not os.path.exists(script):
            raise Failure(f"no {script}")
        argv = [script, f"--ids={ids or self.ids}", *options]
        environment = dict(self.env, **(env or {}))
        self.counter += 1
        errors = os.path.join(self.folder, f"restart.{self.counter}.err")
        if terminal == "leader":
            tty = Terminal(*size)
            pid = processes.spawn(argv, env=environment, cwd=self.work, terminal=tty.path,
                                  stderr=errors if stderr_to_file else None)
        else:
            tty = None
            pid = processes.spawn(argv, env=environment, cwd=self.work, stdin="/dev/null",
                                  stdout=errors.replace(".err", ".out"), stderr=errors, new_session=True)
        program = Program(self, pid, tty, name)
        program.errors = errors
        self.programs.append(program)
        if wait:
            self.wait_restarted(program, timeout)
        return program

    def wait_restarted(self, program, timeout=60.0):
        def running():
            status = processes.status_of(program.pid)
            if status is not None and os.waitstatus_to_exitcode(status) != 0:
                said = self.text_of(program)
                # On a busy machine the programs may have come to their end before anybody looks.
                if re.search(r"of computation \S+ goe?s? on", said):
                    return True
                # A port that the kernel had chosen: between a kill and the restart it may choose it for another test.
                if re.search(r"this (TCP|UDP) port is taken by", said):
                    raise Again(f"another program has taken a port: {said}")
                # Or a number: by a process of another test, never by one of this one's.
                holder = re.search(r"pid \d+ is taken by (?:a thread of )?process (\d+)", said)
                if holder and int(holder[1]) not in [program.pid, *processes.descendants()]:
                    raise Again(f"another program has taken a process id: {said}")
                raise Failure(f"{program.name}: {processes.describe_status(status)}" + said)
            if status is not None:
                return True
            found = self.status()
            return found and found["state"] == "running"
        self.wait_until(running, f"{program.name} to bring the group back", timeout)

    # ---- reports and the end ---------------------------------------------------------------------------------------

    def text_of(self, program):
        text = ""
        if program.terminal:
            program.terminal.drain()
            text += f"\nterminal of {program.name}:\n{program.terminal.tail()}"
        errors = getattr(program, "errors", None)
        if errors and self._read(errors):
            text += f"\nstderr of {program.name}:\n{self._read(errors)}"
        return text

    def dump(self):
        """What a reader of a failed test wants to see."""
        lines = ["---- processes"]
        coordinator = self.coordinator_pid()
        for pid in processes.descendants():
            lines.append(f"{pid} the coordinator" if pid == coordinator else processes.report(pid))
        for program in self.programs:
            lines.append(f"---- {program.name} (pid {program.pid})" + self.text_of(program))
        for verb in ("status", "list"):
            try:
                code, out, err = self.command(verb, timeout=5)
                lines.append(f"---- cairn {verb}: {code}\n{out}{err}")
            except Failure as failure:
                lines.append(f"---- cairn {verb}: {failure}")
        log = os.path.join(self.env["CAIRN_RUNDIR"], self.name, "coordinator.log")
        lines.append("---- coordinator.log\n" + self._read(log)[-6000:])
        return "\n".join(lines)

    def close(self):
        processes.kill_tree()
        for program in self.programs:
            if program.terminal:
                program.terminal.hang_up()
        if self.owns_folder and not self.keep_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _read(path):
        try:
            with open(path, errors="replace") as file:
                return file.read()
        except OSError:
            return ""
