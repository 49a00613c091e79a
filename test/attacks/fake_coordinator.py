"""Another user answers in the place of root's session, takes its names before, or waits for root to step into his own session. Root
says nothing to him, believes nothing, and acts in another user's session only where CAIRN_RUNDIR names it."""
import os
import subprocess
from cairn_test import check, modes

INSIDE = "CAIRN_TEST_OWN_TMP"
NOBODY = 65534

# Run as the attacker: listens at a path (or an abstract name), answers everything with lies, writes down what it hears.
FAKE = r"""
import os, socket, sys
path, heard = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind("\0" + path[1:] if path[0] == "@" else path)
if path[0] != "@": os.chmod(path, 0o777)
server.listen(10)
print("ready", flush=True)
lie = b'{"event":"done","code":0,"region":"/tmp/evil/region","pid":1,"session":"default","state":"idle","killed":0,"directory":"/tmp/evil/ckpt","notes":["\\u001b]0;owned\\u0007"]}'
while True:
    peer, _ = server.accept()
    try:
        peer.send(lie)
        peer.settimeout(0.5)
        data = peer.recv(65536)
        if data: os.write(heard, data + b"\n")
        peer.send(lie)
    except OSError:
        pass
"""

VERBS = (["status"], ["list"], ["checkpoint"], ["interval", "5"], ["kill"], ["quit"], ["launch", "--", "/usr/bin/true"])
tried = held = 0


def as_attacker(argv, **options):
    return subprocess.Popen(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv], **options)


def fake(t, path):
    program = as_attacker(["/usr/bin/python3", "-c", FAKE, path, HEARD], stdout=subprocess.PIPE)
    check(program.stdout.readline() == b"ready\n", f"no fake at {path}")
    return program


def root_asks(t, what, env, codes=(1, 3, 5), verbs=VERBS):
    """Each verb fails, and the other side has heard nothing."""
    global tried, held
    for verb in verbs:
        tried += 1
        before = os.path.getsize(HEARD)
        code, out, err = t.command(*verb, env=env, timeout=30)
        check(code in codes, f"{what}: cairn {verb}: {code} {out}{err}")
        check("evil" not in out + err and "\x1b" not in out + err, f"{what}: cairn {verb} believed: {out}{err}")
        check(os.path.getsize(HEARD) == before, f"{what}: cairn {verb} said something to the other user")
        held += 1
    t.say(f"{what}: {err.strip()}")


def test(t):
    if INSIDE not in os.environ:
        # A /tmp of our own: root's usual place is in it.
        os.environ[INSIDE] = "1"
        os.environ.pop("XDG_RUNTIME_DIR", None)
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /tmp && chmod 1777 /tmp && exec \"$@\"", "sh",
                              *modes.own_command()])
    global HEARD
    HEARD = "/tmp/heard"
    with open(HEARD, "w"):
        os.chmod(HEARD, 0o666)
    plain = {key: value for key, value in t.env.items() if not key.startswith("CAIRN_RUNDIR")}

    # The usual place is the other user's, with a coordinator in it.
    as_attacker(["mkdir", "-p", "/tmp/cairn-0/default"]).wait()
    program = fake(t, "/tmp/cairn-0/default/socket")
    root_asks(t, "another's folder", plain)
    program.kill()
    subprocess.run(["rm", "-rf", "/tmp/cairn-0"], check=True)
    # A symlink to his folder.
    as_attacker(["mkdir", "-p", "/tmp/his/default"]).wait()
    as_attacker(["ln", "-s", "/tmp/his", "/tmp/cairn-0"]).wait()
    program = fake(t, "/tmp/his/default/socket")
    root_asks(t, "a symlink", plain)
    os.unlink("/tmp/cairn-0")
    # His socket in root's folder: by rename, by link, by symlink.
    os.makedirs("/tmp/cairn-0/default", 0o700)
    for place in (lambda: os.link("/tmp/his/default/socket", "/tmp/cairn-0/default/socket"),
                  lambda: os.symlink("/tmp/his/default/socket", "/tmp/cairn-0/default/socket")):
        place()
        root_asks(t, "another's socket", plain)
        os.unlink("/tmp/cairn-0/default/socket")
    # The session's folder is a symlink to his.
    os.rmdir("/tmp/cairn-0/default")
    os.symlink("/tmp/his/default", "/tmp/cairn-0/default")
    root_asks(t, "a symlink in the place of the session", plain)
    os.unlink("/tmp/cairn-0/default")
    program.kill()

    # He has the abstract names that root's coordinator would take.
    global tried, held
    value = 0xcbf29ce484222325
    for byte in b"/tmp/cairn-0/default":
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    squatter = fake(t, f"@cairn-session-0-{value:016x}")
    tried += 1
    code, out, err = t.command("launch", "--", "/usr/bin/true", env=plain)
    check(code == 0, f"a launch with the name taken: {code} {out}{err}")
    check(os.path.getsize(HEARD) == 0, "something was said to who has the name")
    held += 1
    squatter.kill()
    t.must_env = plain
    code, out, err = t.command("quit", env=plain)
    check(code == 0, f"quit: {code} {err}")

    # Root in his session: only by name.
    his = {"PATH": os.environ["PATH"], "CAIRN_RUNDIR": "/tmp/session of his", "CAIRN_CKPTDIR": "/tmp"}
    job = as_attacker([t.cairn, "launch", "--", "/usr/bin/sleep", "1000"], env=his)
    named = dict(plain, CAIRN_RUNDIR=his["CAIRN_RUNDIR"])

    def lists():
        code, out, err = t.command("list", env=named)
        return code == 0 and "sleep" in out
    t.wait_until(lists, "root to list a session that it has named")
    os.symlink(his["CAIRN_RUNDIR"], "/tmp/link")
    os.rename("/tmp/link", "/tmp/cairn-0/linked")
    for what, env in (("XDG_RUNTIME_DIR of his", dict(plain, XDG_RUNTIME_DIR=his["CAIRN_RUNDIR"])), ("no name", plain)):
        root_asks(t, what, env, verbs=VERBS[:6])
    tried += 1
    code, out, err = t.command("launch", "--", "/usr/bin/true", env=named)
    check(code != 0 and "belongs to user" in err, f"root's launch into another's session: {code} {err}")
    held += 1
    check(job.poll() is None, "his program has been ended")
    print(f"attacks: {tried} tried, {held} held", flush=True)
