#!/usr/bin/python3
"""As many processes run as the user may have: a checkpoint does without the threads that it would like, or is given up
with the reason; the programs go on, and the next checkpoint is complete."""
import os
import resource
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import check, main
from cairn_test.ticking import Ticking

SKIPPED = 77


def tasks_of(user):
    """What RLIMIT_NPROC counts: processes and threads with this real uid. One that dies meanwhile counts for little."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == user:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            pass
    return count


def test(t):
    group = Ticking(t, size=20)
    good = group.checkpoint_works("without a limit")
    limited = [t.coordinator_pid()]
    before = resource.prlimit(limited[0], resource.RLIMIT_NPROC)
    tried = []
    # Other tests of the same user come and go: what matters is that the limit strikes somewhere.
    for room in range(12):
        for pid in limited:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (tasks_of(os.getuid()) - 2 + room, before[1]))
        code, out, err = t.command("checkpoint")
        tried.append((room, code, err.strip()))
        t.say(f"limit at {room - 2} more: {code} {err.strip()}")
        check(code == 0 or t.latest() == good, f"given up, and latest went from {good} to {t.latest()}")
        check(code == 0 or "ulimit -u" in err or "Resource temporarily unavailable" in err, f"not the reason: {err!r}")
        check("terminate" not in err and "signal 6" not in err, f"the worker was aborted: {err!r}")
        if code == 0:
            good = t.latest()
        group.all_tick(f"after a checkpoint with room for {room - 2} more")
        if len([1 for _, code, _ in tried if code == 0]) >= 4:
            break
    for pid in limited:
        resource.prlimit(pid, resource.RLIMIT_NPROC, before)
    check(any(code != 0 for _, code, _ in tried), f"the limit never struck: {tried}")
    group.checkpoint_works("after the limit was lifted")


def only_users(t):
    # The kernel doesn't hold root to it.
    if os.getuid() == 0 or "userns" in t.mode:
        t.say("root has no such limit")
        sys.exit(SKIPPED)
    test(t)


main(only_users)
