"""A coordinator that was killed and still has its socket: the kernel closes what a process holds behind giving back its memory, and
until then whoever calls is connected and gets no answer. Here a tracer holds it there; a launch and a restart wait for its end."""
# ci: exact user
import os
import re
import signal
import subprocess
from cairn_test import check, processes

TRACER = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
assert libc.ptrace(0x4206, pid, None, 0x40) == 0, ctypes.get_errno()  # PTRACE_SEIZE, PTRACE_O_TRACEEXIT
print("tracing", flush=True)
status = os.waitpid(pid, 0x40000000)[1]  # __WALL: the stop in its exit
assert os.WIFSTOPPED(status), status
print("dying", flush=True)
time.sleep(float(sys.argv[2]))
"""
COUNT = r"""
import time
at = 0
while True:
    at += 1
    print("AT", at, flush=True)
    time.sleep(0.02)
"""


class Dying:
    """The session's coordinator, killed, and held in its exit for `seconds`."""

    def __init__(self, t, seconds, pid=None):
        self.pid = pid or t.coordinator_pid()
        self.tracer = subprocess.Popen(["/usr/bin/python3", "-c", TRACER, str(self.pid), str(seconds)], stdout=subprocess.PIPE, text=True)
        check(self.tracer.stdout.readline() == "tracing\n", "the coordinator can't be traced")
        os.kill(self.pid, signal.SIGKILL)
        check(self.tracer.stdout.readline() == "dying\n", "the coordinator didn't stop in its exit")

    def is_there(self):
        return self.tracer.poll() is None and processes.stat(self.pid) is not None

    def end(self):
        check(not self.is_there(), "a coordinator that had been killed was asked")
        check(self.tracer.wait() == 0, "the tracer failed")
        self.tracer.stdout.close()


CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def inner_pid(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"^NSpid:.*?(\d+)$", file.read(), re.M)[1])


def next_container(t):
    """The coordinator of a container that was ended has no process id for the next one, which has the same session's folder."""
    first = t.launch(["/bin/sleep", "1000"], wrapper=CONTAINER)
    t.wait_until(lambda: (t.status() or {}).get("processes") == 1, "the program in the container")
    coordinator = next(pid for pid in processes.descendants(first.pid) if inner_pid(pid) == t.coordinator_pid())
    dying = Dying(t, 0.15, coordinator)
    code, out, err = t.run([*CONTAINER, t.cairn, "launch", "/bin/echo", "in the next container"], timeout=30)
    check(code == 0 and out == "in the next container\n", f"a launch in the next container ended with {code}: {out}{err}")
    dying.end()
    os.kill(first.pid, signal.SIGKILL)
    t.programs.remove(first)


def test(t):
    if t.mode == "exact":  # an ordinary user has no pid namespaces
        next_container(t)
    program = t.launch(["/usr/bin/python3", "-c", COUNT])
    program.expect("AT 3")
    for number in range(t.rounds):
        dying = Dying(t, 0.5)
        other = t.launch(["/bin/sleep", "1000"])
        t.wait_until(lambda: len(processes.descendants(other.pid)) == 0 and not dying.is_there(), "the launch to wait for the end of it")
        dying.end()
        # The coordinator that was started for the second program has found the first one.
        t.wait_members(2)
        t.checkpoint("--kill")
        dying = Dying(t, 0.5)
        program = t.restart()
        dying.end()
        program.expect(r"AT \d+")
        t.wait_members(2)
        sleeper = next(each for each in t.members() if each["name"] == "sleep")
        os.kill(sleeper.get("real", sleeper["pid"]), signal.SIGKILL)
        t.wait_until(lambda: len(t.members()) == 1, "the second program to end")
        t.say(f"round {number + 1}: launched and restarted beside a coordinator that was dying")
