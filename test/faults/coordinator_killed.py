"""The coordinator is killed before, in each phase of, and after a checkpoint, and started again: nothing is lost."""
# ci: user
import os
import signal
from cairn_test import check, processes
from cairn_test.events import Events
from cairn_test.ticking import Ticking

PHASES = ("prepare", "stop", "collect", "objects", "fork", "resume", "write", "sync", "publish", "prune")


def leftovers(checkpoint):
    return [name for name in os.listdir(os.path.dirname(checkpoint)) if name.endswith(".partial")]


def test(t):
    group = Ticking(t, size=20)
    good = group.checkpoint_works("before any fault")
    for phase in PHASES:
        before = t.coordinator_pid()
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        check(events.wait_phase(phase), f"phase {phase} never came: {events.seen[-1:]}")
        os.kill(before, signal.SIGKILL)
        t.wait_until(lambda: not processes.stat(before) or processes.stat(before)[1] == "Z", "the coordinator to die")
        events.close()
        group.all_tick(f"after the coordinator was killed in phase {phase}")
        # Any launch starts it again; here by hand. The journal is the region: everybody is known at once.
        t.must("coordinator", "--daemon")
        t.wait_members(3)
        after = t.coordinator_pid()
        check(after and after != before, f"no new coordinator after phase {phase}")
        latest = t.latest()
        check(latest and os.path.exists(os.path.join(latest, "manifest.json")), f"latest leads to {latest} after {phase}")
        newer = group.checkpoint_works(f"with the new coordinator, after {phase}")
        check(newer != good, "a checkpoint that is no new one")
        good = newer
        t.say(f"killed in {phase}: everybody goes on, checkpoint after it")
        if leftovers(good):
            # The killed coordinator's capture was in the middle of an fsync, and held its folder until that was over.
            good = group.checkpoint_works(f"and once more, after {phase}")
            check(not leftovers(good), f"left behind: {leftovers(good)}")
    group.survives_a_restart()
