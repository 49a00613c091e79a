"""--files=save and --with: what was written in place, made, removed, renamed, linked and cut since the checkpoint goes back with the
program, and what was there is kept; the capture killed while it saves and the restart killed while it restores harm nothing; damaged
contents are refused before anything is changed."""
# ci: user
import glob
import os
import shutil
import signal
from cairn_test import check, processes

PROGRAM = r"""
import mmap, os, sys, time
single = open("single", "r+b", buffering=0)
inner = open("tree/sub/inner", "r+b", buffering=0)
shared = mmap.mmap(os.open("mapped", os.O_RDWR), 8192)
number = 0
print("READY", flush=True)
while not os.path.exists("stop"):
    text = b"%010d" % number
    check = (os.pread(single.fileno(), 10, 0), os.pread(inner.fileno(), 10, 5000), bytes(shared[4096:4106]))
    if number and check != (text,) * 3:
        print("WRONG", text, check, flush=True)
        break
    number += 1
    text = b"%010d" % number
    shared[4096:4106] = text
    os.pwrite(single.fileno(), text, 0)
    os.pwrite(inner.fileno(), text, 5000)
    if number % 100 == 0:
        print("AT", number, flush=True)
    time.sleep(0.001)
print("NUMBER", number, os.stat("single").st_ino == os.fstat(single.fileno()).st_ino, flush=True)
"""


def state(tree):
    """All that is to come back: type, mode, target or contents, time, and which names are one inode."""
    found, inodes = {}, {}
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            what = os.readlink(path) if os.path.islink(path) else ""
            if os.path.isfile(path) and not os.path.islink(path) and name != "inner":
                with open(path, "rb") as file:
                    what = (file.read(), os.listxattr(path), status.st_mtime_ns, inodes.setdefault(status.st_ino, path))
            found[path] = (oct(status.st_mode), what)
    return found


def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)


def build(work):
    os.makedirs(f"{work}/tree/sub/empty")
    for name in ("single", "mapped", "tree/sub/inner"):
        write(f"{work}/{name}", "0" * 8192)
    write(f"{work}/tree/plain", "plain\n")
    write(f"{work}/tree/removed", "removed\n")
    write(f"{work}/tree/renamed", "renamed\n")
    write(f"{work}/tree/locked", "locked\n")
    os.chmod(f"{work}/tree/locked", 0o440)
    os.link(f"{work}/tree/plain", f"{work}/tree/sub/plain-too")
    os.symlink("../single", f"{work}/tree/link")
    with open(f"{work}/tree/sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"data")
    try:
        os.setxattr(f"{work}/tree/plain", "user.cairn", b"value")
    except OSError:
        pass


def spoil(work):
    """What a program may do after the checkpoint."""
    write(f"{work}/tree/plain", "of the future\n", "a")
    os.unlink(f"{work}/tree/removed")
    os.rename(f"{work}/tree/renamed", f"{work}/tree/sub/moved")
    os.chmod(f"{work}/tree/locked", 0o600)
    os.unlink(f"{work}/tree/sub/plain-too")
    os.unlink(f"{work}/tree/link")
    os.symlink("elsewhere", f"{work}/tree/link")
    os.rmdir(f"{work}/tree/sub/empty")
    os.truncate(f"{work}/tree/sparse", 5)
    os.mkdir(f"{work}/tree/new")
    write(f"{work}/tree/new/file", "of the future\n")
    os.unlink(f"{work}/mapped")


def kept(work):
    return sorted(glob.glob(f"{work}/*.cairn-after-*"))


def damaged(t):
    victim = max(glob.glob(os.path.join(t.latest(), "files", "*")), key=lambda path: os.stat(path).st_blocks)
    with open(victim, "r+b") as file:
        was = file.read(1)
        file.seek(0)
        file.write(bytes([was[0] ^ 1]))
    before = state(f"{t.work}/tree")
    for options in (["--check"], []):
        code, _, err = t.command("restart", *options, t.latest())
        check(code == 4 and "checksum" in err, f"damaged contents: {code}: {err}")
    check(state(f"{t.work}/tree") == before, "a restart that was refused has changed files")
    with open(victim, "r+b") as file:
        file.write(was)


def kill_captures(t):
    """kill -9 of the capture wherever it is: the checkpoint fails or not, the program goes on, the last one stays good."""
    for number in range(20 if t.soak else 4):
        last = t.latest()
        command = t.begin("checkpoint", "-q")
        t.sleep(0.2 * t.random.random())
        for pid in processes.descendants(t.coordinator_pid()):
            if "cairn-capture" in processes.command_line(pid):
                os.kill(pid, signal.SIGKILL)
        t.wait_until(lambda: command.code() is not None, "the checkpoint to end")
        check(command.code() in (0, 1, 6), f"a checkpoint whose capture was killed: {command.code()}")
        check(command.code() != 0 or t.latest() != last, "a checkpoint that isn't there")
        check(os.path.exists(os.path.join(t.latest(), "manifest.json")), "the last checkpoint has gone")


def kill_restarts(t):
    """The same of a restart, which is begun again."""
    for number in range(20 if t.soak else 4):
        program = t.restart(terminal="none", wait=False)
        t.sleep(0.4 * t.random.random())
        t.pull_the_plug(True)
        if program in t.programs:
            t.programs.remove(program)


def test(t):
    work = t.work
    build(work)
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM], options=("--files=save", "--with", "tree"))
    program.expect("READY")
    program.expect("AT")
    t.checkpoint()
    for number in range(t.rounds):
        kill_captures(t)
        before = state(f"{work}/tree")
        t.checkpoint()
        t.sleep(0.2)
        program.expect("AT")
        t.pull_the_plug(number % 2 == 1)
        spoil(work)
        if number == 0:
            damaged(t)
        kill_restarts(t)
        program = t.restart(name=f"restart {number + 1}")
        # The files are back when all are let go, which is behind the barrier.
        t.wait_until(lambda: "on (generation" in open(program.errors).read(), "the programs to go on")
        after = state(f"{work}/tree")
        check(after == before, f"not as it was: {[path for path in {*before, *after} if before.get(path) != after.get(path)]}")
        check(not glob.glob(f"{work}/**/.cairn-new-*", recursive=True), "names of what is put back are left")
        check(os.stat(f"{work}/tree/sparse").st_blocks < 1000, "the holes are filled")
        futures = [path for path in kept(work) if os.path.exists(f"{path}/plain")]
        check(any("of the future" in open(f"{path}/plain").read() for path in futures), f"what was there isn't kept: {kept(work)}")
        check(any(os.path.exists(f"{path}/new/file") for path in kept(work)), "a new folder isn't kept")
        program.expect("AT")
        for path in kept(work):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        t.say(f"round {number + 1}: all goes back, and what was there is kept")
    write(f"{work}/stop", "")
    program.expect(r"NUMBER (\d+) True")
    program.expect_exit(0)
