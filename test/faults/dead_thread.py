"""A thread that has ended and is still listed: it is no part of a checkpoint, and of no restart. Here a tracer that has not
waited for it keeps it; without one the kernel lists it for a moment, which a busy machine makes longer."""
import os
import signal
from cairn_test import check, processes

PROGRAM = r"""
import sys, threading
go = threading.Event()
threads = [threading.Thread(target=event.wait) for event in (go, threading.Event())]
for thread in threads:
    thread.daemon = True
    thread.start()
print("THREAD", threads[0].native_id, flush=True)
for line in sys.stdin:
    if line == "end\n":
        go.set()
        threads[0].join()
    print("LIVES", threads[0].is_alive(), threads[1].is_alive(), flush=True)
"""

TRACER = r"""
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0, ctypes.get_errno()  # PTRACE_SEIZE
time.sleep(1000)
"""


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM])
    tid = int(program.expect(r"THREAD (\d+)\r?\n")[1])
    tracer = processes.spawn(["/usr/bin/python3", "-c", TRACER, str(tid)], stdin="/dev/null", stdout="/dev/null",
                             new_session=True)

    def field(name):
        with open(f"/proc/{program_pid}/task/{tid}/status") as file:
            return next(line.split()[1] for line in file if line.startswith(name + ":"))
    program_pid = t.members()[0]["pid"]
    t.wait_until(lambda: field("TracerPid") == str(tracer), "the tracer to trace")
    program.send("end\n")
    program.expect(r"LIVES False True\r?\n")
    t.wait_until(lambda: field("State") == "Z", "the thread to be dead and listed")
    folder = t.checkpoint()
    code, out, err = t.command("restart", "--check", folder)
    check(code == 0, f"called good, and can't be restarted: {err or out}")
    os.kill(tracer, signal.SIGKILL)
    t.pull_the_plug()
    program = t.restart()
    program.send("look\n")
    program.expect(r"LIVES False True\r?\n")
