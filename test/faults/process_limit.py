"""As many processes run as the user may have: a checkpoint does without the threads that it would like, or is given up
with the reason; the programs go on, and the next checkpoint is complete."""
# ci: user
import os
import resource
from cairn_test import Skip, check
from cairn_test.ticking import Ticking


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
    # The kernel doesn't hold root to it.
    if os.getuid() == 0 or "userns" in t.mode:
        raise Skip("root has no such limit")
    group = Ticking(t, size=20)
    good = group.checkpoint_works("without a limit")
    tried = []
    # Other tests of the same user come and go: what matters is that the limit strikes somewhere. A soft limit is raised by the
    # capture itself (common/own_process.h), and a hard one goes down only.
    for room in range(9, -3, -1):
        limit = tasks_of(os.getuid()) + room
        lowest = min([limit] + [hard for hard, *_ in tried])
        resource.prlimit(t.coordinator_pid(), resource.RLIMIT_NPROC, (lowest, lowest))
        code, out, err = t.command("checkpoint")
        tried.append((lowest, room, code, err.strip()))
        t.say(f"limit at {room} more: {code} {err.strip()}")
        check(code == 0 or t.latest() == good, f"given up, and latest went from {good} to {t.latest()}")
        check(code == 0 or "ulimit -u" in err or "Resource temporarily unavailable" in err, f"not the reason: {err!r}")
        check("terminate" not in err and "SIGABRT" not in err, f"the worker was aborted: {err!r}")
        if code == 0:
            good = t.latest()
        group.all_tick(f"after a checkpoint with room for {room} more")
        if len([1 for *_, code, _ in tried if code != 0]) >= 4:
            break
    check(any(code != 0 for *_, code, _ in tried), f"the limit never struck: {tried}")
    t.must("quit")
    t.must("coordinator", "--daemon")
    group.checkpoint_works("by a coordinator without the limit")
