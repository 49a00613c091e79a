"""Processes whose names, arguments, threads, files, sockets and variables hold escape sequences, line ends, half letters: they are
saved, come back byte for byte, and nothing that anybody prints of them does anything to a terminal; JSON of them is UTF-8."""
# ci: user
import ctypes
import json
import os
from cairn_test import check, processes

NAMES = (
    b"xxxxxxxxxxxxxx\xc3\xb6l",             # the kernel cuts after 15 bytes: in the middle of the letter
    b"\x1b]0;owned\x07",                    # sets a terminal's title
    b"a\nb\x1b[31m",
    b"\xff\xfe\x80 bad",
    b"\xe2\x82",                            # two bytes of three
    b"\x7f\x7fdel",
    b"\xc2\x9b31mc1",                       # CSI as one character
    b"\xe2\x80\xaegnp.exe",                 # right to left
    b"\xed\xa0\x80\xf4\x90\x80\x80",        # a surrogate, beyond Unicode
    b"$(reboot)`x`'\"",
    b"%s%n{}{0}\\",
)

PROGRAM = r"""
import ctypes, os, socket, sys, threading, time
number, name = sys.argv[1], os.fsencode(sys.argv[2])
libc = ctypes.CDLL(None)
ready = threading.Event()
thread_name = ctypes.create_string_buffer(16)
def thread():
    libc.prctl(15, b"T" + name, 0, 0, 0)
    while True:
        libc.prctl(16, thread_name, 0, 0, 0)
        ready.set()
        time.sleep(0.01)
threading.Thread(target=thread, daemon=True).start()
ready.wait()
libc.prctl(15, name, 0, 0, 0)
kept = open(b"file " + name, "wb")
bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
bound.bind(b"\0cairn-odd-" + str(os.getpid()).encode() + name)
report = os.open("report." + number, os.O_WRONLY | os.O_CREAT)
def content(path):
    with open(path, "rb") as file: return file.read()
count = 0
while True:
    count += 1
    tasks = content("/proc/self/comm"), thread_name.value
    now = (tasks, content("/proc/self/cmdline"), os.readlink(b"/proc/self/fd/%d" % kept.fileno()), bound.getsockname(),
           os.environb[b"ODD"])
    os.pwrite(report, repr((count, now)).encode().ljust(4000), 0)
    time.sleep(0.02)
"""


def read(t, number):
    try:
        with open(os.path.join(t.work, f"report.{number}"), "rb") as file:
            return eval(file.read())
    except (OSError, SyntaxError):
        return None


def all_count(t, when):
    before = [read(t, number) for number in range(len(NAMES))]

    def moved():
        now = [read(t, number) for number in range(len(NAMES))]
        return all(a and (not b or a[0] != b[0]) for a, b in zip(now, before))
    t.wait_until(moved, f"all to count {when}")
    return [read(t, number)[1] for number in range(len(NAMES))]


def is_harmless(data, what):
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise AssertionError(f"{what}: {error}: {data[max(0, error.start - 40):error.end + 20]!r}") from None
    for at, letter in enumerate(text):
        code = ord(letter)
        check(not (code < 0x20 and letter != "\n" or 0x7f <= code < 0xa0 or code == 0x61c or 0x200e <= code <= 0x200f or
                   0x2028 <= code <= 0x202e or 0x2066 <= code <= 0x2069), f"{what}: {text[max(0, at - 40):at + 20]!r}")


def says(t, *arguments, code=0):
    out, err = (os.path.join(t.folder, f"said.{kind}") for kind in ("out", "err"))
    pid = processes.spawn([t.cairn, *arguments], env=t.env, cwd=t.work, stdin="/dev/null", stdout=out, stderr=err)
    t.wait_until(lambda: processes.status_of(pid) is not None, f"cairn {arguments[0]} to end")
    said = b""
    for path in (out, err):
        with open(path, "rb") as file:
            text = file.read()
        is_harmless(text, f"cairn {' '.join(arguments)}: {os.path.basename(path)}")
        said += text
    got = os.waitstatus_to_exitcode(processes.status_of(pid))
    check(got == code, f"cairn {arguments}: {got}: {said.decode()}")
    return said


def console(t):
    """The same on a terminal of the coordinator's."""
    keep = {name: t.env[name] for name in ("CAIRN_RUNDIR", "CAIRN_SESSION", "CAIRN_CKPTDIR")}
    t.must("quit")
    shown = t.launch([t.cairn, "coordinator"], native=True, wrapper=["env", *(f"{a}={b}" for a, b in keep.items())], name="console")
    shown.expect("h for help")
    shown.send("l\n")
    shown.expect("COMMAND")
    shown.send("c\n")
    shown.expect("checkpoint [0-9]+: ")
    shown.send("q\n")
    shown.exit_status()
    shown.terminal.drain()
    # libedit moves the cursor itself.
    for evil in (b"\x1b]", b"\x1b[31m\xff", b"\xc2\x9b", b"\xe2\x80\xae", b"\x7f", b"\xff", b"\xed\xa0", b"\x07"):
        check(evil not in shown.terminal.text, f"{evil!r} on the console's terminal: {shown.terminal.text!r}")
    t.programs.remove(shown)
    t.must("coordinator", "--daemon")


def test(t):
    for number, name in enumerate(NAMES):
        t.launch(["/usr/bin/python3", "-c", PROGRAM, str(number), os.fsdecode(name)], terminal="none",
                 env={"ODD": os.fsdecode(name)}, name=f"odd {number}")
    t.wait_members(len(NAMES))
    before = all_count(t, "at the beginning")
    says(t, "checkpoint")
    for verb in (["list"], ["status"], ["inspect", t.latest()], ["restart", "--list", t.latest()]):
        says(t, *verb)
    for verb in (["list", "--json"], ["status", "--json"], ["checkpoint", "--json"], ["inspect", "--json", t.latest()]):
        json.loads(says(t, *verb))
    images = [os.path.join(t.latest(), name) for name in os.listdir(t.latest()) if "manifest" not in name and ".sh" not in name]
    for image in images:
        says(t, "inspect", image)
    for name in ("restart.sh", "manifest.json"):
        with open(os.path.join(t.latest(), name), "rb") as file:
            is_harmless(file.read(), name)
    check(t.run(["sh", "-n", os.path.join(t.latest(), "restart.sh")])[0] == 0, "restart.sh")
    if t.mode == "exact":
        console(t)
    # An error that names one.
    libc = ctypes.CDLL(None, use_errno=True)
    victim = t.programs[2].pid
    check(libc.ptrace(0x4206, victim, None, None) == 0, f"PTRACE_SEIZE: {ctypes.get_errno()}")
    said = says(t, "checkpoint", code=3)
    check(b"a\\x0ab\\x1b[31m" in said, f"the refusal: {said!r}")
    check(libc.ptrace(0x4207, victim, None, None) == 0 or libc.ptrace(17, victim, None, None) == 0 or True, "")
    t.pull_the_plug()
    # Another that names a path.
    lost = os.path.join(t.work.encode(), b"file " + NAMES[1])
    os.rename(lost, lost + b".away")
    said = says(t, "restart", f"--ids={t.ids}", t.latest(), code=3)
    check(b"\\x1b]0;owned" in said, f"the restart's error: {said!r}")
    t.pull_the_plug()
    os.rename(lost + b".away", lost)
    t.restart(terminal="none")
    after = all_count(t, "after the restart")
    for old, new in zip(before, after):
        check(old == new, f"not what it was:\n{old}\n{new}")
    says(t, "checkpoint", "--kill")
    with open(os.path.join(t.env["CAIRN_RUNDIR"], t.name, "coordinator.log"), "rb") as file:
        is_harmless(file.read(), "coordinator.log")
