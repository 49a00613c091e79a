"""The worker of a checkpoint, or a process of the group, is killed in each phase: the others go on, the last
checkpoint stays."""
# ci: exact user
import os
import signal
from cairn_test import Failure, check, processes
from cairn_test.events import Events
from cairn_test.ticking import Ticking

PHASES = ("stop", "collect", "objects", "fork", "resume", "write", "sync")
TRIES = 20  # a phase may be over when the signal arrives


def is_complete(t, folder, when):
    code, out, err = t.command("restart", "--check", folder, timeout=60)
    check(code == 0, f"{folder} {when}: restart --check ended with {code}: {err or out}")


def kill_worker(t, group, phase, good):
    """Until the worker was there and was killed before it was through; the newest good checkpoint then."""
    for number in range(TRIES):
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        reached = events.wait_phase(phase)
        victim = processes.capture() if reached else None
        if victim:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                victim = None
        end = events.wait_end()
        events.close()
        when = f"after the worker was killed in phase {phase}"
        check(reached, f"phase {phase} never came: {end}")
        group.all_tick(when)
        if end["event"] == "done":  # the signal was late
            check(t.latest() != good, f"{end}, but the newest checkpoint is still {good}")
            good = t.latest()
            is_complete(t, good, when)
            continue
        check(victim is not None, f"nobody was killed in phase {phase}, and yet {end}")
        t.say(f"worker killed in {phase}, try {number + 1}: {end.get('reason', '')}")
        check(end.get("reason"), f"no reason is told: {end}")
        check(t.latest() == good, f"{end}, but the newest checkpoint is {t.latest()}, not {good}")
        is_complete(t, good, when)
        return good
    raise Failure(f"in {TRIES} checkpoints no worker could be killed in phase {phase} before it was through")


def kill_member(t, group, phase, good):
    """The others' checkpoint is complete or given up, never half; the newest good one then."""
    extra = Ticking(t, name=f"extra-{phase}", children=0)
    events = Events(t)
    events.ask({"verb": "checkpoint"})
    check(events.wait_phase(phase), f"phase {phase} never came: {events.seen[-1:]}")
    os.kill(extra.program.pid, signal.SIGKILL)
    end = events.wait_end()
    events.close()
    t.say(f"member killed in {phase}: {end['event']} {end.get('reason', '')}")
    extra.program.exit_status()
    t.programs.remove(extra.program)
    group.all_tick(f"after a member was killed in phase {phase}")
    if end["event"] == "done":
        members = len(group.names)
        check(end["processes"] in (members, members + 1), f"of {members} and one that was killed: {end}")
        check(t.latest() != good, f"{end}, but the newest checkpoint is still {good}")
    else:
        # It goes without the one who was killed, unless he is so long about it that the time for that is over.
        check("was killed while it was being saved" in end.get("reason", ""), f"no reason is told: {end}")
        check(t.latest() == good, f"{end}, but the newest checkpoint is {t.latest()}, not {good}")
    is_complete(t, t.latest(), f"after a member was killed in phase {phase}")
    return t.latest()


def test(t):
    # All pages each time: what has changed since the last checkpoint is written and synced sooner than anybody could be killed.
    t.env["CAIRN_FULL"] = "1"
    group = Ticking(t, size=20)
    good = group.checkpoint_works("before any fault")
    for phase in PHASES:
        kill_worker(t, group, phase, good)
        good = group.checkpoint_works(f"after the worker was killed in phase {phase}")
    for phase in PHASES:
        good = kill_member(t, group, phase, good)
    group.checkpoint_works("after all of it")
    group.survives_a_restart()
