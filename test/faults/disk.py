#!/usr/bin/python3
"""The disk is full, the folder is gone, or not writable: given up with the reason, programs go on, the last one stays."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import shutil
from cairn_test import Skip, check, main
from cairn_test.ticking import Ticking


def given_up(t, group, what, *words):
    before = t.latest()
    code, out, err = t.command("checkpoint")
    check(code != 0, f"{what}: 'cairn checkpoint' ended with 0: {out}")
    check(any(word in err for word in words), f"{what}: the message does not say so: {err!r}")
    check(t.latest() == before, f"{what}: latest was {before} and is {t.latest()}")
    group.all_tick(what)
    t.say(f"{what}: {err.strip()}")


def test(t):
    group = Ticking(t, size=20)
    good = group.checkpoint_works("before any fault")
    if t.mode in ("exact", "virtual"):
        small = os.path.join(t.folder, "small")
        os.mkdir(small)
        code, _, err = t.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small])
        if code != 0:
            raise Skip(f"can't mount a small tmpfs: {err}")
        try:
            for _ in range(2):
                code, out, err = t.command("checkpoint", "--ckptdir", small)
                check(code != 0, f"disk full, and 'cairn checkpoint' ended with 0: {out}")
                check("No space left" in err or "full" in err, f"disk full, and the message says: {err!r}")
                group.all_tick("with a full disk")
                t.say(f"disk full: {err.strip()}")
                used = sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(small)
                           for name in names)
                check(used < 1 << 20, f"{used} bytes were left behind on the full disk")
        finally:
            t.run(["umount", "-l", small])
    moved = t.ckptdir + ".moved"
    os.rename(t.ckptdir, moved)
    with open(t.ckptdir, "w") as file:  # a file in its place: it can't be made again either
        file.write("in the way")
    given_up_code, out, err = t.command("checkpoint")
    check(given_up_code != 0 and ("directory" in err), f"folder gone: {given_up_code} {err!r}")
    group.all_tick("with the folder gone")
    t.say(f"folder gone: {err.strip()}")
    os.unlink(t.ckptdir)
    os.rename(moved, t.ckptdir)
    if t.mode == "user":
        mode = os.stat(t.ckptdir).st_mode
        os.chmod(t.ckptdir, 0o500)
        os.chmod(os.path.dirname(good), 0o500)
        given_up(t, group, "folder not writable", "Permission denied", "not writable")
        os.chmod(t.ckptdir, mode)
        os.chmod(os.path.dirname(good), 0o700)
    check(t.latest() == good, f"the last good one was {good}, latest leads to {t.latest()}")
    # The good one is still good, and the next one works.
    group.survives_a_restart()
    group.checkpoint_works("after all of it")


main(test)
