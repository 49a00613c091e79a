"""`cairn doctor` is right: where it says that cairn works a program is saved and restarted, and where something is taken away
(ptrace, userfaultfd, /proc, the folder's room or its permission) it names that, and what it says then is so."""
# ci: user
import json
import os
import resource
import shlex
import sys
import time
from cairn_test import SLOW, Failure, Session, check, modes

PATIENT = ["--timeout", "30"]
GROUPS = {"checkpoint", "restart", "speed", "storage", "limits"}
STATES = {"ok", "slower", "note", "missing"}

# Installs a seccomp filter in which each of these calls gets its answer, and becomes the command:
# NUMBER:ANSWER,... COMMAND...
FILTERED = r"""
import ctypes, os, struct, sys
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
def step(code, value, jump=0):
    return struct.pack("HBBI", code, 0, jump, value)
code = step(0x20, 0)
for word in sys.argv[1].split(","):
    number, answer = (int(part, 0) for part in word.split(":"))
    code += step(0x15, number, 1) + step(0x06, answer)
code += step(0x06, 0x7fff0000)
held = ctypes.create_string_buffer(code, len(code))
program = Program(len(code) // 8, ctypes.cast(held, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[2], sys.argv[2:])
"""
KILL, EPERM = 0x80000000, 0x00050001
PTRACE, USERFAULTFD = 101, 323

COUNTS = "import time\nheld = b'x' * (3 << 20)\nwhile True:\n    print('counts', flush=True)\n    time.sleep(0.05)\n"


class Report:
    def __init__(self, code, text):
        self.code, self.whole = code, json.loads(text)
        self.checks = {each["name"]: each for each in self.whole["checks"]}

    def says(self, name, state, *words, needed=False):
        line = self.checks[name]
        check(line["state"] == state and line["needed"] == needed, f"{name} should be {state}: {line}")
        text = " ".join((line["found"], line["meaning"], line["remedy"]))
        check(all(word in text for word in words), f"{name} should say {words}: {line}")

    def works(self):
        check(self.code == 0 and self.whole["works"], f"it should work: {self.code}, {self.whole['verdict']}\n{self.broken()}")
        self.says("rehearsal", "ok", "launched, saved, killed and restarted")

    def does_not_work(self, *names):
        check(self.code == 3 and not self.whole["works"], f"it shouldn't work: {self.code}, {self.whole['verdict']}")
        check("does not work here" in self.whole["verdict"], self.whole["verdict"])
        check(all(name in self.whole["verdict"] for name in names), f"{names} should be named: {self.whole['verdict']}")
        check(all(line["remedy"] for line in self.checks.values() if line["state"] == "missing"), f"no advice: {self.broken()}")

    def broken(self):
        return "\n".join(str(line) for line in self.checks.values() if line["state"] == "missing")


def doctor(t, *options, under=()):
    for _ in range(3):  # on a busy machine a deadline may pass, which says nothing else
        code, out, err = t.run([*under, t.cairn, "doctor", "--json", *PATIENT, *options])
        check(code in (0, 3), f"cairn doctor ended with {code}: {err}{out}")
        report = Report(code, out)
        if report.checks["rehearsal"]["state"] != "note":
            break
    check({line["group"] for line in report.whole["checks"]} == GROUPS, "groups are missing")
    check({line["state"] for line in report.whole["checks"]} <= STATES, "there are other states")
    return report


def filtered(**calls):
    numbers = {"ptrace": PTRACE, "userfaultfd": USERFAULTFD}
    return [sys.executable, "-c", FILTERED, ",".join(f"{numbers[name]}:{answer}" for name, answer in calls.items())]


def leaves_nothing(t):
    left = [name for name in os.listdir(t.env["CAIRN_RUNDIR"]) if "doctor" in name] + os.listdir(t.ckptdir)
    check(not left, f"left behind: {left}")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                ours = t.env["CAIRN_RUNDIR"].encode() in file.read()
        except OSError:
            continue
        check(not (ours and (b"doctor" in words)), f"process {pid} is left: {words}")


def trial(t, under=(), ckptdir=None, ids=None):
    """What becomes of a real program under the same circumstances: "works", or the step that failed and what was said."""
    t.counter += 1
    s = Session(t.build, ids or t.ids, name="trial", folder=os.path.join(t.folder, f"trial{t.counter}"))
    if ckptdir:
        s.ckptdir = s.env["CAIRN_CKPTDIR"] = ckptdir
    try:
        program = s.launch([sys.executable, "-c", COUNTS], wrapper=under)
        try:
            program.expect("counts")
            s.wait_members(1)
        except Failure as failure:
            return "launch", str(failure)
        code, _, err = s.command("checkpoint")
        if code != 0:
            program.expect("counts")  # it goes on
            return "checkpoint", err
        s.pull_the_plug()
        script = os.path.join(s.folder, "under")
        with open(script, "w") as file:
            file.write("#!/bin/sh\nexec " + " ".join(map(shlex.quote, [*under, f"{s.ckptdir}/restart.sh"])) + ' "$@"\n')
        os.chmod(script, 0o755)
        try:
            s.restart(script=script).expect("counts")
        except Failure as failure:
            return "restart", str(failure)
        return "works", ""
    finally:
        s.pull_the_plug()
        s.close()


def as_it_is(t):
    began = time.monotonic()
    code, out, err = t.command("doctor")
    took = time.monotonic() - began
    check(code == 0 and out.splitlines()[-1].startswith("cairn "), f"{code} {err}{out}")
    check("\033" not in out, "colours, though it is no terminal")
    check(took < 3 * SLOW, f"it took {took:.1f} s")
    report = doctor(t)
    report.works()
    who = "as root" if os.getuid() == 0 else "as an ordinary user"
    check(who in report.whole["verdict"], report.whole["verdict"])
    report.says("ptrace", "ok")
    report.says("checkpoint_folder", "ok", t.ckptdir)
    if t.mode == "exact":
        report.says("ids", "ok", "old ids")
    if t.mode == "user":
        report.says("ids", "note", "virtual ids")
        report.says("lazy", "slower", "memory is read before the programs go on")
    leaves_nothing(t)
    t.say(f"{report.whole['verdict']} (in {took:.2f} s)")


def agrees(t, name, expected, under=(), **options):
    """The doctor's word is what a real program meets."""
    step, said = trial(t, under, **options)
    check(step in expected, f"{name}: a real program comes to '{step}' and not to {expected}: {said}")
    t.say(f"{name}: a real program: {step} {said.strip().splitlines()[-1] if said else ''}")


def few_descriptors(t):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= 1000:
        t.skip_part("few descriptors", "there are as few anyhow")
        return
    under = ["/bin/sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
    report = doctor(t, under=under)
    report.does_not_work("ulimits", "rehearsal")
    report.says("ulimits", "missing", "256 files", "ulimit -H -n", "limits.conf", needed=True)
    report.says("rehearsal", "missing", "cairn restart", "descriptors", needed=True)
    agrees(t, "256 descriptors", ["restart"], under)
    under = ["/bin/sh", "-c", 'ulimit -n 500; exec "$@"', "sh"]
    report = doctor(t, under=under)
    report.works()
    report.says("ulimits", "note", "500 files")
    agrees(t, "500 descriptors", ["works"], under)


def no_ptrace(t):
    under = filtered(userfaultfd=KILL, ptrace=EPERM)
    report = doctor(t, under=under)
    report.does_not_work("ptrace", "uffd_move", "rehearsal")
    report.says("ptrace", "missing", "Operation not permitted", "seccomp filter", "--cap-add=SYS_PTRACE", needed=True)
    report.says("uffd_move", "missing", "SIGSYS", "seccomp", needed=True)
    report.says("rehearsal", "missing", "cairn checkpoint", needed=True)
    agrees(t, "no ptrace", ["checkpoint"], under)


def userfaultfd_kills(t):
    """Who saves can do without; a restarted program that has some memory can't."""
    under = filtered(userfaultfd=KILL)
    report = doctor(t, under=under)
    report.does_not_work("uffd_move", "rehearsal")
    report.says("ptrace", "ok")
    report.says("rehearsal", "missing", "cairn restart", needed=True)
    agrees(t, "userfaultfd kills", ["restart"], under)


def userfaultfd_refused(t):
    under = filtered(userfaultfd=EPERM)
    report = doctor(t, under=under)
    report.works()
    report.says("uffd_move", "slower", "Operation not permitted", "small pages")
    agrees(t, "userfaultfd refused", ["works"], under)


def root_without_ids(t):
    """Root of a container may not choose ids (it lacks CAP_CHECKPOINT_RESTORE): a restart does without, unless it is told to."""
    under = ["/usr/bin/setpriv", "--inh-caps=-all", "--bounding-set=-sys_admin,-checkpoint_restore"]
    report = doctor(t, under=under)
    report.works()
    report.says("ids", "note", "Operation not permitted", "virtual ids", "--cap-add=CHECKPOINT_RESTORE")
    report.says("privileges", "note", "SYS_ADMIN", "CHECKPOINT_RESTORE")
    agrees(t, "root who can't choose ids", ["works"], under, ids="auto")


def root_of_a_namespace(t):
    """Neither may root of a user namespace, in a pid namespace that isn't its own."""
    under = ["/usr/bin/unshare", "--user", "--map-root-user"]
    report = doctor(t, under=under)
    report.works()
    check("as root of a user namespace" in report.whole["verdict"], report.whole["verdict"])
    report.says("ids", "note", "virtual ids")
    agrees(t, "root of a user namespace", ["works"], under, ids="auto")


def without_proc(t):
    under = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
    report = doctor(t, under=under)
    report.does_not_work("proc")
    report.says("proc", "missing", "/proc is not mounted", "mount -t proc", needed=True)
    agrees(t, "no /proc", ["launch"], under)


def folder_not_writable(t):
    folder = os.path.join(t.folder, "closed")
    os.mkdir(folder, 0o500)
    report = doctor(t, "--ckptdir", folder)
    report.does_not_work("checkpoint_folder")
    report.says("checkpoint_folder", "missing", folder, "Permission denied", "--ckptdir", needed=True)
    report.says("rehearsal", "ok")  # elsewhere: it is the folder alone
    agrees(t, "folder not writable", ["launch"], ckptdir=folder)
    below = doctor(t, "--ckptdir", folder + "/a/b")
    below.does_not_work("checkpoint_folder")
    below.says("checkpoint_folder", "missing", folder + "/a", "Permission denied", needed=True)
    made = doctor(t, "--ckptdir", os.path.join(t.folder, "fresh", "one"))
    made.works()
    check(not os.path.exists(os.path.join(t.folder, "fresh")), "a folder is left behind")


def full_disk(t):
    small = os.path.join(t.folder, "small")
    os.mkdir(small)
    code, _, err = t.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small])
    check(code == 0, f"can't mount a small tmpfs: {err}")
    try:
        os.chmod(small, 0o700)
        with open(os.path.join(small, "ballast"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 << 20)
        report = doctor(t, "--ckptdir", small)
        report.does_not_work("checkpoint_folder")
        report.says("checkpoint_folder", "missing", small, "No space left", "make room", needed=True)
        report.says("file_system", "note", "tmpfs", "lost by a reboot")
        report.says("space", "note", "0 B free")
        agrees(t, "full disk", ["checkpoint"], ckptdir=small)
    finally:
        t.run(["umount", "-l", small])


def test(t):
    modes.enter_own_mounts()
    parts = [as_it_is, few_descriptors, no_ptrace, userfaultfd_kills, userfaultfd_refused]
    if t.mode == "user":
        parts += [folder_not_writable, root_of_a_namespace]  # permissions don't stop root
    else:
        parts += [full_disk, root_without_ids]  # only root mounts
        if t.mode != "userns":  # there, another /proc is below the one that is taken away
            parts.append(without_proc)
    for part in parts:
        part(t)
        leaves_nothing(t)
