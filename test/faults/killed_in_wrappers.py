"""The worker of a checkpoint is killed while it leads a thread out of a wrapper that translates ids: the thread goes on as if nothing
had been. The programs here are in such a wrapper nearly all the time."""
# ci: user
import os
import signal
from cairn_test import check, processes
from cairn_test.events import Events
from cairn_test.ticking import Ticking

# Writes as the members of Ticking do.
BUSY = r"""
import os, signal, sys
child = os.fork()
while child == 0:
    signal.pause()
group, asked = os.getpgid(child), (os.getpgid, os.getsid, os.sched_getscheduler)
file, count = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644), 0
while True:
    for _ in range(100):
        assert [ask(child) for ask in asked][0] == group
        os.kill(child, 0)
    count += 1
    os.pwrite(file, b"%10d %10d\n" % (os.getpid(), count), 0)
"""


def test(t):
    group = Ticking(t, children=0)
    for name in ("busy 0", "busy 1"):
        t.launch(["/usr/bin/python3", "-c", BUSY, name])
        group.names.append(name)
    t.wait_members(5)
    group.all_tick("at the beginning")
    killed = 0
    for number in range(1000 if t.soak else 60):
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        reached = events.wait_phase("collect")
        victim = processes.capture() if reached else None
        t.sleep(t.random.random() * 0.003)
        if victim:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = events.wait_end()
        events.close()
        killed += end["event"] == "failed"
        group.all_tick(f"after kill {number}, in phase {end.get('phase')}", 5)
    t.say(f"{killed} of the workers were killed before their checkpoint was through")
    check(killed >= 20, f"only {killed} workers were killed in time")
    group.checkpoint_works("after all of it")
    group.survives_a_restart()
