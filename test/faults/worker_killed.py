#!/usr/bin/python3
"""The worker of a checkpoint, or a process of the group, is killed in each phase: the others go on, the last
checkpoint stays."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import signal
from cairn_test import Failure, check, main, processes
from cairn_test.events import Events
from cairn_test.ticking import Ticking

PHASES = ("stop", "collect", "objects", "fork", "resume", "write", "sync")


def worker(t):
    for pid in processes.descendants():
        found = processes.stat(pid)
        if found and found[0].startswith("cairn-capture"):
            return pid
    return None


def test(t):
    group = Ticking(t, size=20)
    good = group.checkpoint_works("before any fault")
    for phase in PHASES:
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        reached = events.wait_phase(phase)
        victim = worker(t)
        if victim:
            os.kill(victim, signal.SIGKILL)
        end = events.wait_end()
        events.close()
        t.say(f"worker killed in {phase}: {end.get('event')} {end.get('reason', '')}")
        check(victim is None or not reached or end["event"] == "failed" or t.latest() != good,
              f"killed in {phase}, and yet {end}")
        group.all_tick(f"after the worker was killed in phase {phase}")
        good = group.checkpoint_works(f"after the worker was killed in phase {phase}")
    # Now a member: the others' checkpoint is complete or given up, never half.
    for phase in PHASES:
        extra = Ticking(t, name=f"extra-{phase}", children=0)
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        events.wait_phase(phase)
        try:
            os.kill(extra.program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        end = events.wait_end()
        events.close()
        t.say(f"member killed in {phase}: {end.get('event')} {end.get('reason', '')}")
        extra.program.exit_status()
        t.programs.remove(extra.program)
        group.all_tick(f"after a member was killed in phase {phase}")
    group.checkpoint_works("after all of it")
    group.survives_a_restart()


main(test)
