"""--files=save: cairn-capture, the coordinator or both are killed (kill -9) at random moments of the saving, and the disk gets full in
the midst of it: the program goes on, and the last good checkpoint stays whole and can be restarted, with its files."""
# ci: exact
import hashlib
import os
import signal
from cairn_test import Failure, check, modes, processes
from cairn_test.events import Events

SIZE = 96 << 20
PROGRAM = r"""
import os, random, sys, time
large = os.open("large", os.O_RDWR)
size = os.fstat(large).st_size
number = 0
print("READY", flush=True)
while not os.path.exists("stop"):
    text = b"%010d" % number
    if number and (os.pread(large, 10, 0), os.pread(large, 10, size - 10)) != (text, text):
        print("WRONG", flush=True)
        break
    number += 1
    text = b"%010d" % number
    os.pwrite(large, text, 0)
    os.pwrite(large, os.urandom(4096), random.randrange(4096, size - 8192))
    os.pwrite(large, text, size - 10)
    if number % 200 == 0:
        name = "tree/%d" % (number // 200 % 50)
        with open(name + ".new", "w") as file:
            file.write(name * number)
        os.rename(name + ".new", name)
        print("AT", number, flush=True)
    time.sleep(0.001)
print("END", number, flush=True)
"""


def contents(folder):
    """A checkpoint with its saved files, byte by byte."""
    digest = hashlib.sha256()
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            with open(os.path.join(where, name), "rb") as file:
                digest.update(name.encode() + file.read())
    return digest.hexdigest()


def captures(t):
    return [pid for pid in processes.descendants(t.coordinator_pid() or -1) if "cairn-capture" in processes.command_line(pid)]


def new_coordinator(t):
    t.wait_until(lambda: t.coordinator_pid() is None or processes.stat(t.coordinator_pid())[1] in "ZX", "the coordinator to die")
    code, _, err = t.command("coordinator", "--daemon")
    check(code == 0, f"a new coordinator: {err}")
    t.wait_members(1)


def phase_of(t):
    status = t.status() or {}
    return (status.get("checkpoint") or {}).get("phase")


def kill_somebody(t, program, number, found):
    """One checkpoint that is hit; what there was before is as it was."""
    good = t.latest()
    before = contents(good)
    command = t.begin("checkpoint", "-q")
    if number % 3 == 2:  # in the phases that are this test's subject
        try:
            t.wait_until(lambda: command.code() is not None or phase_of(t) in ("copy", "files", "sync"), "a phase that saves files", 20)
        except Failure:
            pass
    else:
        t.sleep(0.3 * t.random.random())
    coordinator = t.coordinator_pid()
    victims = {0: captures(t), 1: [coordinator], 2: [coordinator, *captures(t)]}[t.random.randrange(3)]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    hit = command.code() is None
    t.wait_until(lambda: command.code() is not None, "the checkpoint to end")
    if coordinator in victims:
        new_coordinator(t)
    program.expect("AT")
    check(command.code() in (0, 1, 5, 6), f"a checkpoint that was hit ended with {command.code()}")
    if command.code() != 0:
        found["failed"] += 1
        # It may have been published in the instant before its command was told.
        if t.latest() == good:
            check(contents(good) == before, f"{good} has changed")
    found["hit"] += hit and bool(victims)
    code, out, err = t.command("restart", "--check", "--files=restore", t.latest())
    check(code == 0, f"{t.latest()}: {err or out}")


def full_disk(t, program):
    """Of a small file system: too full for the copy ahead, and filled while the program stands still for it."""
    small = os.path.join(t.folder, "small")
    os.mkdir(small)
    code, _, err = t.run(["mount", "-t", "tmpfs", "-o", f"size={(SIZE >> 20) * 2 + 64}m", "tmpfs", small])
    check(code == 0, f"can't mount a small tmpfs: {err}")
    try:
        t.must("checkpoint", "--ckptdir", small)
        good = os.path.realpath(os.path.join(small, "latest"))
        before = contents(good)
        ballast = os.path.join(small, "ballast")
        for number in range(4):
            room = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
            with open(ballast, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, room - ((SIZE * number) // 4) - (20 << 20))
            code, _, err = t.command("checkpoint", "--ckptdir", small)
            check(code != 0 and ("No space left" in err or "not enough space" in err), f"a full disk: {code}: {err}")
            t.say(f"full disk: {err.strip()}")
            program.expect("AT")
            check(contents(good) == before, f"{good} has changed")
            left = [name for name in os.listdir(os.path.dirname(good)) if name.endswith(".partial")]
            check(not left, f"what was given up is left: {left}")
            os.unlink(ballast)
        code, out, err = t.command("restart", "--check", "--files=restore", good)
        check(code == 0, f"{good}: {err or out}")
    finally:
        t.run(["umount", "-l", small])


def full_between(t, program):
    """The disk gets full when the copy ahead is there and the programs are about to stand still."""
    small = os.path.join(t.folder, "small2")
    os.mkdir(small)
    code, _, err = t.run(["mount", "-t", "tmpfs", "-o", f"size={(SIZE >> 20) + 64}m", "tmpfs", small])
    check(code == 0, f"can't mount a small tmpfs: {err}")
    before = t.coordinator_pid()
    try:
        os.kill(before, signal.SIGKILL)
        new = dict(t.env, CAIRN_FAULT="files:slow")
        t.wait_until(lambda: not processes.stat(before) or processes.stat(before)[1] in "ZX", "the coordinator to die")
        code, _, err = t.command("coordinator", "--daemon", env=new)
        check(code == 0, err)
        t.wait_members(1)
        events = Events(t)
        events.ask({"verb": "checkpoint", "ckptdir": small})
        check(events.wait_phase("files"), f"no phase files: {events.seen}")
        with open(os.path.join(small, "ballast"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(small).f_bavail * os.statvfs(small).f_frsize)
        end = events.wait_end()
        events.close()
        check(end["event"] == "failed" and "No space left" in end["reason"], f"disk full while all stand still: {end}")
        program.expect("AT")
    finally:
        t.run(["umount", "-l", small])
        now = t.coordinator_pid()
        os.kill(now, signal.SIGKILL)
        new_coordinator(t)


def test(t):
    modes.enter_own_mounts()
    os.mkdir(os.path.join(t.work, "tree"))
    with open(os.path.join(t.work, "large"), "wb") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM], options=("--files=save", "--with", "tree"))
    program.expect("READY")
    program.expect("AT")
    t.checkpoint()
    found = {"hit": 0, "failed": 0}
    for number in range(t.rounds):
        for each in range(20 if t.soak else 5):
            kill_somebody(t, program, each, found)
        t.pull_the_plug(number % 2 == 1)
        with open(os.path.join(t.work, "large"), "r+b") as file:
            file.write(b"of the future")
        program = t.restart("--files=restore", name=f"restart {number + 1}")
        program.expect("AT")
        for name in os.listdir(t.work):
            if ".cairn-after-" in name and os.path.isfile(os.path.join(t.work, name)):
                os.unlink(os.path.join(t.work, name))
        t.say(f"round {number + 1}: {found['hit']} checkpoints were hit so far, {found['failed']} of them came to nothing")
    check(found["failed"] > 0, "no checkpoint was hit: the test has shown nothing")
    if t.mode in ("exact", "virtual"):
        full_disk(t, program)
        full_between(t, program)
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    program.expect(r"END \d+")
    program.expect_exit(0)
    check(b"WRONG" not in program.terminal.text, "the file isn't what was written")
