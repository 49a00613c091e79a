"""The disk is full, the folder is gone, or not writable: given up with the reason, programs go on, the last one stays."""
# ci: virtual userns
import os
import signal
from cairn_test import Failure, check, modes, processes
from cairn_test.events import Events
from cairn_test.ticking import Ticking


def given_up(t, group, what, words, folder=None):
    before = t.latest()
    code, out, err = t.command("checkpoint", *(["--ckptdir", folder] if folder else []))
    check(code != 0, f"{what}: 'cairn checkpoint' ended with 0: {out}")
    check(all(word in err for word in words), f"{what}: the message does not say so: {err!r}")
    check(t.latest() == before, f"{what}: latest was {before} and is {t.latest()}")
    group.all_tick(what)
    t.say(f"{what}: {err.strip()}")


def restart_coordinator(t, **env):
    before = t.coordinator_pid()
    os.kill(before, signal.SIGKILL)
    t.wait_until(lambda: not processes.stat(before) or processes.stat(before)[1] == "Z", "the coordinator to die")
    code, _, err = t.command("coordinator", "--daemon", env=dict(t.env, **env))
    check(code == 0, f"a new coordinator: {err}")
    t.wait_members(3)


def full_disk(t, group):
    """A small tmpfs: too small from the start, and full in the middle of the writing."""
    small = os.path.join(t.folder, "small")
    os.mkdir(small)
    code, _, err = t.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", small])
    if code != 0:
        raise Failure(f"can't mount a small tmpfs: {err}")
    ballast = os.path.join(small, "ballast")
    try:
        with open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 192 << 20)
        for _ in range(2):
            given_up(t, group, "no space", ["not enough space", small, "8.00 MiB"], small)
        os.unlink(ballast)
        restart_coordinator(t, CAIRN_FAULT="write:slow")  # it sleeps 2 s before it writes
        events = Events(t)
        events.ask({"verb": "checkpoint", "ckptdir": small})
        check(events.wait_phase("write"), f"no phase write: {events.seen}")
        with open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 192 << 20)
        end = events.wait_end()
        events.close()
        check(end["event"] == "failed" and "No space left" in end["reason"], f"disk full while writing: {end}")
        t.say(f"disk full while writing: {end['reason']}")
        group.all_tick("with a full disk")
        left = sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(small)
                   for name in names if name != "ballast")
        check(left < 1 << 20, f"{left} bytes were left behind on the full disk")
        restart_coordinator(t)
    finally:
        t.run(["umount", "-l", small])


def test(t):
    modes.enter_own_mounts()
    group = Ticking(t, size=20)
    good = group.checkpoint_works("before any fault")
    if t.mode != "user":  # who may not mount anything
        full_disk(t, group)

    moved = t.ckptdir + ".moved"
    os.rename(t.ckptdir, moved)
    with open(t.ckptdir, "w") as file:  # a file in its place: it can't be made again either
        file.write("in the way")
    code, out, err = t.command("checkpoint")
    check(code != 0 and "directory" in err and t.ckptdir in err, f"folder gone: {code} {err!r}")
    group.all_tick("with the folder gone")
    t.say(f"folder gone: {err.strip()}")
    os.unlink(t.ckptdir)
    os.rename(moved, t.ckptdir)

    if t.mode == "user":  # permissions don't stop root
        places = (t.ckptdir, os.path.dirname(good))
        for place in places:
            os.chmod(place, 0o500)
        given_up(t, group, "folder not writable", ["Permission denied"])
        for place in places:
            os.chmod(place, 0o700)
        given_up(t, group, "another's folder", ["Permission denied", "/root"], "/root/checkpoints")
    elif t.mode in ("exact", "virtual"):
        given_up(t, group, "a folder that can't be made", ["/proc/checkpoints"], "/proc/checkpoints")
    check(t.latest() == good, f"the last good one was {good}, latest leads to {t.latest()}")
    # The good one is still good, and the next one works.
    group.survives_a_restart()
    group.checkpoint_works("after all of it")
