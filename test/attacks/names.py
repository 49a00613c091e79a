"""Root restarts what a user's program was saved as, and the user has exchanged what its names lead to; the folder of a checkpoint
lies where others can write. Nothing of root's may be handed out, written or removed, and every refusal names what is wrong."""
import os
import shutil
import stat
from cairn_test import check, modes

SECRET = "nobody but root reads this\n"
HELD = r"""
import ctypes, mmap, os, socket, subprocess, sys, time
folder = sys.argv[1]
def at(name): return os.path.join(folder, name)
data = os.open(at("data"), os.O_RDWR)
deep = os.open(at("deep/file"), os.O_RDONLY)
library = os.open(at("library"), os.O_RDONLY)
mapped = mmap.mmap(library, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
fifo = os.open(at("fifo"), os.O_RDWR)
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(at("run/socket"))
server.listen(1)
shared = os.open(sys.argv[2], os.O_RDWR)
inotify = ctypes.CDLL(None).inotify_init()
ctypes.CDLL(None).inotify_add_watch(inotify, at("watched").encode(), 0x100)
child = subprocess.Popen([at("program"), "1000000"])
os.chdir(at("cwd"))
open(at("up"), "w").close()
while True:
    if os.path.exists(at("ask")):
        held = [os.pread(fd, 100, 0) for fd in (data, deep, shared, 9)]
        with open(at("answer.new"), "w") as answer:
            answer.write(repr((os.geteuid(), os.getcwd(), held)))
        os.rename(at("answer.new"), at("answer"))
        os.remove(at("ask"))
    time.sleep(0.02)
"""


class Attacks:
    def __init__(self, t):
        self.t, self.user = t, modes.ordinary_user()
        self.tried = self.held = 0
        os.chmod(t.folder, 0o711)
        self.home = os.path.join(t.folder, "home")
        self.mine = os.path.join(t.folder, "mine")
        self.shm = f"/dev/shm/cairn-names-{os.getpid()}"
        os.mkdir(self.home)
        os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        os.mkdir(self.mine, 0o700)
        self.secret = os.path.join(self.mine, "secret")
        for name in ("secret", "file", "socket"):
            with open(os.path.join(self.mine, name), "w") as file:
                file.write(SECRET)
            os.chmod(file.name, 0o600)
        self.log = os.path.join(self.mine, "log")
        self.as_user(f"mkdir deep run watched cwd && echo data > data && echo deep > deep/file && mkfifo fifo && cp /bin/sleep program"
                     f" && head -c 4096 /dev/zero > library && echo shared > {self.shm}")
        with open(os.path.join(self.home, "held.py"), "w") as file:
            file.write(HELD)

    def as_user(self, script):
        code, out, err = self.t.run(["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups",
                                     "sh", "-ec", f"cd {self.home} && {script}"])
        check(code == 0, f"{script}: {code} {out}{err}")

    def tries(self, what, holds, why):
        self.tried += 1
        check(holds, f"{what}: {why}")
        self.held += 1
        self.t.say(f"held: {what}")

    def untouched(self, what):
        """Nothing of root's has changed."""
        for name in ("secret", "file", "socket"):
            with open(os.path.join(self.mine, name)) as file:
                check(file.read() == SECRET, f"{what}: {name} of root's was written to")
        check(sorted(os.listdir(self.mine)) == ["file", "log", "secret", "socket"], f"{what}: {os.listdir(self.mine)}")

    def refused(self, what, *options, words=(), code=3, folder=None):
        given, out, err = self.t.command("restart", "--ids=virtual", *options, folder or self.t.ckptdir, timeout=30)
        self.tries(what, given == code and all(word in err for word in words), f"exit code {given}, {code} was expected with {words}: {out}{err}")
        self.untouched(what)
        return err


def exchanged_names(a):
    """By the user, while his program is down. What is put back is what was there, not a copy of it."""
    home = a.home
    for what, do, name in (
            ("a file exchanged for a link to root's", f"mv data was && ln -s {a.secret} data", "data"),
            ("a file exchanged for a link to another of his", "mv data was && echo other > other && ln -s other data", "data"),
            ("a file exchanged for a FIFO", "mv data was && mkfifo data", "data"),
            ("a file exchanged for a socket", "mv data was && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"data\")'", "data"),
            ("a file exchanged for a folder", "mv data was && mkdir data", "data"),
            ("a folder exchanged for a link to root's", f"mv deep was && ln -s {a.mine} deep", "deep"),
            ("a FIFO exchanged for a link to root's file", f"mv fifo was && ln -s {a.secret} fifo", "fifo"),
            ("a FIFO exchanged for a file", "mv fifo was && echo x > fifo", "fifo"),
            ("the working folder exchanged for a link to root's", f"mv cwd was && ln -s {a.mine} cwd", "cwd"),
            ("a watched folder exchanged for a link to root's", f"mv watched was && ln -s {a.mine} watched", "watched"),
            ("the executable exchanged, of the same size and time",
             "mv program was && cp was program && printf x | dd of=program bs=1 seek=$(($(stat -c %s was) - 1)) conv=notrunc 2>/dev/null"
             " && touch -r was program", "program"),
            ("a mapped file exchanged, of the same size and time",
             "mv library was && head -c 4096 /dev/zero | tr '\\0' x > library && touch -r was library", "library")):
        a.as_user(do)
        a.refused(what, words=(os.path.join(home, name),))
        a.as_user(f"rm -rf {name} && mv was {name}")
    # As where hard links aren't protected (fs.protected_hardlinks=0).
    data, was = os.path.join(home, "data"), os.path.join(home, "was")
    os.rename(data, was)
    os.link(a.secret, data)
    a.refused("a file exchanged for a hard link to root's", words=(data,))
    os.unlink(data)
    with open(data, "w") as file:
        file.write(SECRET)
    os.chmod(data, 0o600)
    a.refused("a name that root has taken since", words=(data,))
    os.rename(was, data)
    other = a.shm + ".was"
    os.rename(a.shm, other)
    os.symlink(a.secret, a.shm)
    a.refused("shared memory's name exchanged for a link to root's file", words=(a.shm,))
    os.unlink(a.shm)
    os.rename(other, a.shm)


def restored(a, what, *options, folder=None):
    """A restart that works: what the program has in its hands then."""
    t = a.t
    program = t.restart(*options, script=os.path.join(folder or t.ckptdir, "restart.sh"), ids="virtual", terminal="none", name=what)
    a.as_user("touch ask")
    answer = os.path.join(a.home, "answer")
    t.wait_until(lambda: os.path.exists(answer), f"{what}: an answer")
    with open(answer) as file:
        said = eval(file.read())
    os.unlink(answer)
    t.must("kill")
    t.pull_the_plug(False)
    return program, said


def folders(a):
    t, user = a.t, a.user
    generation = os.path.realpath(os.path.join(t.ckptdir, "latest"))
    cid = os.path.basename(os.path.dirname(generation))
    around = os.path.join(t.folder, "around")
    copy = os.path.join(around, "ckpt")

    def fresh():
        shutil.rmtree(around, ignore_errors=True)
        os.mkdir(around, 0o755)
        shutil.copytree(t.ckptdir, copy, symlinks=True)
        return os.path.join(copy, cid, os.path.basename(generation))

    place = fresh()
    code, out, err = t.command("restart", "--check", copy)
    check(code == 0, f"a copy that only root can write: {code} {out}{err}")
    levels = (around, copy, os.path.join(copy, cid), place)
    for level in levels:
        for what, change in (("its group can write", lambda: os.chmod(level, 0o775)), ("everybody can write", lambda: os.chmod(level, 0o777)),
                             ("is another user's", lambda: os.chown(level, user.pw_uid, user.pw_gid))):
            fresh()
            change()
            a.refused(f"a level that {what}: {os.path.relpath(level, t.folder)}", "--check", words=(level, "--trust-folder"), folder=place)
            a.refused(f"and what only root could open, from there: {os.path.relpath(level, t.folder)}", "--check", "--trust-folder",
                      words=(a.log, "copy the checkpoint"), folder=place)
    fresh()
    os.chmod(place, 0o1777)
    a.refused("a checkpoint's own folder with the sticky bit", "--check", words=(place,), folder=place)
    # Sticky above is /tmp's case.
    fresh()
    os.chmod(around, 0o1777)
    code, out, err = t.command("restart", "--check", copy)
    check(code == 0, f"a folder of root's below one with the sticky bit: {code} {out}{err}")
    sticky = os.path.join(t.folder, "sticky")
    os.mkdir(sticky)
    os.chmod(sticky, 0o1777)
    os.symlink(place, os.path.join(sticky, "latest"))
    os.lchown(os.path.join(sticky, "latest"), user.pw_uid, user.pw_gid)
    a.refused("`latest` is another user's link", "--check", words=("latest", "belongs to"), folder=sticky)
    # Images that are somewhere else.
    names = sorted(name for name in os.listdir(fresh()) if name not in ("manifest.json", "restart.sh"))
    for name in (names[0], names[-1], "manifest.json"):
        fresh()
        outside = os.path.join(a.mine, "secret")
        image = os.path.join(place, name)
        shutil.move(image, os.path.join(around, "elsewhere"))
        os.symlink(os.path.join(around, "elsewhere"), image)
        a.refused(f"a link in the place of {name}", "--check", words=(name,), code=4, folder=place)
        os.unlink(image)
        os.symlink(outside, image)
        a.refused(f"a link to root's file in the place of {name}", "--check", words=(name,), code=4, folder=place)
        code, out, err = t.command("inspect", "--verify", place)
        a.tries(f"inspect of a link in the place of {name}", code == 4 and SECRET.strip() not in out + err, f"{code} {out}{err}")
        os.unlink(image)
        os.mkfifo(image)
        a.refused(f"a FIFO in the place of {name}", "--check", code=4, folder=place)


def checkpoints(a):
    t, user = a.t, a.user
    sticky = os.path.join(t.folder, "tmp")
    os.mkdir(sticky)
    os.chmod(sticky, 0o1777)
    env = dict(t.env, CAIRN_SESSION="other", CAIRN_CKPTDIR="")
    old = os.umask(0)
    try:
        t.run([t.cairn, "coordinator", "--daemon"], env=env, cwd=sticky)
        t.launch(["sleep", "1000"], env=env, terminal="none")
    finally:
        os.umask(old)
    t.wait_until(lambda: "sleep" in t.command("list", env=env)[1], "sleep to be a member")
    code, out, err = t.command("checkpoint", env=env, cwd=sticky)
    own = os.path.join(sticky, "cairn-root")
    a.tries("a current folder with the sticky bit", code == 0 and out.startswith(own + "/"), f"{code} {out}{err}")
    levels = [own, *(os.path.join(where, name) for where, names, _ in os.walk(own) for name in names if not os.path.islink(os.path.join(where, name)))]
    bad = [path for path in levels if stat.S_IMODE(os.stat(path).st_mode) != 0o700]
    a.tries("umask 0", len(levels) >= 3 and not bad, f"{levels}: not 0700: {bad}")
    latest = os.path.realpath(os.path.join(own, "latest"))
    a.refused("a checkpoint of root's below a folder that all may write and rename in", "--check", words=(sticky, "--trust-folder"),
              folder=(os.chmod(sticky, 0o777), latest)[1])
    code, out, err = t.command("restart", "--check", "--trust-folder", latest)
    check(code == 0, f"--trust-folder: {code} {out}{err}")
    os.chmod(sticky, 0o1777)
    for name in ("restart.sh", "latest"):
        for what, make in (("file", lambda path: open(path, "w").close()), ("link", lambda path: os.symlink(a.secret, path)),
                           ("folder", os.mkdir)):
            shared = os.path.join(t.folder, f"shared-{name}-{what}")
            os.mkdir(shared)
            os.chmod(shared, 0o1777)
            path = os.path.join(shared, name)
            make(path)
            os.lchown(path, user.pw_uid, user.pw_gid)
            code, out, err = t.command("checkpoint", "--ckptdir", shared, env=env)
            a.tries(f"another user's {what} {name}", code == 3 and path in err and "--ckptdir" in err and os.listdir(shared) == [name], f"{code} {out}{err} {os.listdir(shared)}")
            a.untouched(name)
    for what, change in (("writable by others", lambda path: os.chmod(path, 0o777)), ("writable by its group", lambda path: os.chmod(path, 0o770)),
                         ("another user's", lambda path: os.chown(path, user.pw_uid, user.pw_gid))):
        folder = os.path.join(t.folder, "for " + what)
        os.mkdir(folder)
        change(folder)
        code, out, err = t.command("checkpoint", "--ckptdir", folder, env=env)
        a.tries(f"a folder for checkpoints {what}", code == 3 and folder in err and not os.listdir(folder), f"{code} {out}{err}")
    # The name of the computation's folder taken by another in a sticky one.
    cid = next(name for name in os.listdir(own) if "-" in name)
    for what in ("folder", "link"):
        shared = os.path.join(t.folder, f"taken-{what}")
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        taken = os.path.join(shared, cid)
        if what == "folder":
            os.mkdir(taken)
        else:
            os.symlink(a.mine, taken)
        os.lchown(taken, user.pw_uid, user.pw_gid)
        code, out, err = t.command("checkpoint", "--ckptdir", shared, env=env)
        a.tries(f"the computation's folder is another user's {what}", code != 0 and taken in err, f"{code} {out}{err}")
        a.untouched(what)
    t.must("kill", "--session", "other")


def test(t):
    a = Attacks(t)
    # Root's log, which the program inherits and couldn't open itself: servers have those.
    with open(a.log, "w") as file:
        file.write("log of root's\n")
    os.chmod(a.log, 0o600)
    script = f'exec 9<>{a.log}; exec setpriv --reuid={a.user.pw_uid} --regid={a.user.pw_gid} --clear-groups /usr/bin/python3 {a.home}/held.py {a.home} {a.shm}'
    try:
        t.launch(["bash", "-c", script], terminal="none")
        t.wait_until(lambda: os.path.exists(os.path.join(a.home, "up")), "the program to have everything open")
        t.wait_members(2)
        t.checkpoint()
        t.pull_the_plug(False)
        exchanged_names(a)
        folders(a)
        _, (uid, cwd, held) = restored(a, "undisturbed")
        check(uid == a.user.pw_uid and cwd == os.path.join(a.home, "cwd"), f"restored as {uid} in {cwd}")
        check(held == [b"data\n", b"deep\n", b"shared\n", b"log of root's\n"], f"held: {held}")
        # The socket's folder leads to root's now: nothing may be made or removed there.
        a.as_user(f"mv run was && ln -s {a.mine} run")
        t.command("restart", "--ids=virtual", "--check", t.ckptdir)
        code, out, err = t.run(["timeout", "-s", "TERM", "5", t.cairn, "restart", "--ids=virtual", t.ckptdir], timeout=30)
        a.tries("a socket's folder exchanged for a link to root's", code not in (0, 124), f"{code} {out}{err}")
        a.untouched("socket")
        a.as_user("rm run && mv was run")
        t.pull_the_plug(False)
        checkpoints(a)
    finally:
        if os.path.lexists(a.shm):
            os.unlink(a.shm)
    print(f"attacks: {a.tried} tried, {a.held} held", flush=True)
