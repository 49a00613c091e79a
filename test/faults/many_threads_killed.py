"""Of a program with hundreds of threads cairn-capture is killed (kill -9) while all of them run the agent, alone and together with the
coordinator, so that nobody tells them: every thread goes on, and the program can be saved and restarted afterwards."""
# ci: exact user
import os
import signal
from cairn_test import check, processes
from cairn_test.killed_capture import checkpoint_killed_in, new_coordinator

THREADS = 300
PROGRAM = r"""
import sys, threading, time
count = [0] * int(sys.argv[1])
def tick(i):
    while True:
        count[i] += 1
        time.sleep(0.05)
for i in range(len(count)):
    threading.Thread(target=tick, args=(i,), daemon=True).start()
while True:
    before = list(count)
    sys.stdin.readline()
    while not all(now > then for now, then in zip(count, before)):
        time.sleep(0.01)
    print("all", flush=True)
"""


def all_tick(program):
    """Each of the threads has counted on since it was asked for the last time, and once more since then."""
    for _ in range(2):
        program.send("\n")
        program.expect(r"all\r?\n", 30)


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(THREADS)])
    t.wait_members(1)
    all_tick(program)
    for phase in ("objects", "fork", "resume"):
        checkpoint_killed_in(t, phase)
        all_tick(program)
    for phase in ("objects", "fork"):
        new_coordinator(t, f"{phase}:hang")
        coordinator = t.coordinator_pid()
        asked = t.begin("checkpoint")
        t.wait_until(lambda phase=phase: phase in t.command("status", timeout=20)[1], f"the phase {phase}")
        capture = processes.capture()
        check(capture, f"no capture in phase {phase}")
        os.kill(coordinator, signal.SIGKILL)
        os.kill(capture, signal.SIGKILL)
        asked.code()
        all_tick(program)
        new_coordinator(t)
        all_tick(program)
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        all_tick(program)
