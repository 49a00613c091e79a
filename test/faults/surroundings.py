"""Coordinator and capture are nobody's children: limits, niceness, umask, signals, environment of whoever happened to launch
first don't govern them. What can't be helped is said at once by its name, and so is what kills one of them."""
import os
import signal
import sys
from cairn_test import check, processes

# A wrapper that a launch is run by: python3 WRAPPER "code" argv...
WRAPPER = """
import os, resource as r, signal, sys
exec(sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])
"""

BAD = """
for name, soft in (("FSIZE", 512), ("CPU", 5), ("NOFILE", 9), ("STACK", 1 << 17), ("AS", 200 << 20), ("DATA", 190 << 20)):
    number = getattr(r, "RLIMIT_" + name)
    r.setrlimit(number, (soft, r.getrlimit(number)[1]))
os.nice(15)
os.umask(0o777)
for number in (signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
open("/proc/self/oom_score_adj", "w").write("700")
import ctypes
ctypes.CDLL(None).personality(0x0040000)
os.environ.update(PASSWORD="secret", MALLOC_PERTURB_="1")
"""

PROGRAM = "import time; data = b'x' * (24 << 20)\nwhile True: time.sleep(0.05)"


# Where memory runs out the capture goes before any program (capture/main.cpp).
FIRST_TO_GO = 999


def field(pid, name):
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith(name + ":"))


def is_plain(pid, who):
    with open(f"/proc/{pid}/limits") as file:
        limits = {line[:26].strip(): line[26:].split()[:2] for line in file.readlines()[1:]}
    for name, (soft, hard) in limits.items():
        if name not in ("Max stack size", "Max core file size"):
            check(soft == hard or (name == "Max cpu time" and int(soft) + 1 == int(hard)), f"{who}: {name} is {soft}, {hard} was possible")
    check(limits["Max stack size"][0] == str(8 << 20), f"{who}: a stack of {limits['Max stack size']}")
    check(field(pid, "Umask") == "0077", f"{who}: umask {field(pid, 'Umask')}")
    blocked, ignored = (int(field(pid, name), 16) for name in ("SigBlk", "SigIgn"))
    known = {signal.SIGCHLD, signal.SIGINT}
    check(not any(blocked >> (number - 1) & 1 for number in range(1, 32) if number not in known), f"{who}: blocks {blocked:x}")
    known = {signal.SIGPIPE, signal.SIGTTOU, signal.SIGXFSZ}
    check(not any(ignored >> (number - 1) & 1 for number in range(1, 32) if number not in known), f"{who}: ignores {ignored:x}")
    check(os.sched_getscheduler(pid) == os.SCHED_OTHER, f"{who}: policy {os.sched_getscheduler(pid)}")
    check(os.sched_getaffinity(pid) == os.sched_getaffinity(0), f"{who}: CPUs {os.sched_getaffinity(pid)}")
    with open(f"/proc/{pid}/oom_score_adj") as file, open(f"/proc/{os.getpid()}/oom_score_adj") as mine:
        most = FIRST_TO_GO if who == "capture" else max(0, int(mine.read()))
        check(int(file.read()) <= most, f"{who}: oom_score_adj")
    with open(f"/proc/{pid}/personality") as file:
        check(int(file.read(), 16) == 0, f"{who}: another personality")
    with open(f"/proc/{pid}/environ", "rb") as file:
        environment = file.read()
    check(b"PASSWORD" not in environment and b"MALLOC_" not in environment, f"{who}: environment {environment}")
    check(os.readlink(f"/proc/{pid}/cwd") == "/", f"{who}: in {os.readlink(f'/proc/{pid}/cwd')}")
    if may_lower_niceness():
        check(os.getpriority(os.PRIO_PROCESS, pid) == 0, f"{who}: niceness {os.getpriority(os.PRIO_PROCESS, pid)}")


def may(capability):
    return int(field("self", "CapEff"), 16) >> capability & 1


def may_lower_niceness():
    """CAP_SYS_NICE of a user namespace doesn't do."""
    pid = os.fork()
    if pid == 0:
        try:
            os.nice(1)
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def capture_of(t):
    return t.wait_until(processes.capture, "a capture")


def launch(t, setting, session, program=PROGRAM, **environment):
    return t.launch([sys.executable, "-c", program], terminal="none", name=session,
                    env=dict(environment, CAIRN_SESSION=session),
                    wrapper=[sys.executable, "-c", WRAPPER, setting])


def pid_of(t, session):
    with open(os.path.join(t.env["CAIRN_RUNDIR"], session, "coordinator.pid")) as file:
        return int(file.read())


def log_of(t, session):
    with open(os.path.join(t.env["CAIRN_RUNDIR"], session, "coordinator.log")) as file:
        return file.read()


def registered(t, session):
    def there():
        code, out, _ = t.command("status", "--session", session)
        return code == 0 and "running" in out
    t.wait_until(there, f"session {session} to run", 10)


def has_data(t, program):
    """It registers before it has a byte of its own."""
    t.wait_until(lambda: int(field(program.pid, "RssAnon").split()[0]) > 24 << 10, "the program's 24 MiB", 10)


def test(t):
    # Everything as bad as it can be, but where the hard limits allow better.
    launch(t, BAD, "bad", CAIRN_FAULT="write:hang")
    registered(t, "bad")
    is_plain(pid_of(t, "bad"), "coordinator")
    asked = processes.spawn([t.cairn, "checkpoint", "--session", "bad"], env=t.env, cwd=t.work, stdin="/dev/null",
                            stdout="/dev/null", stderr=os.path.join(t.folder, "killed.err"))
    capture = capture_of(t)
    t.wait_until(lambda: ": write," in t.command("status", "--session", "bad")[1], "the capture to write")
    is_plain(capture, "capture")
    os.kill(capture, signal.SIGXCPU)
    t.wait_until(lambda: processes.status_of(asked) is not None, "the checkpoint to fail")
    with open(os.path.join(t.folder, "killed.err")) as file:
        said = file.read()
    check("SIGXCPU" in said and "ulimit -t" in said, f"a capture was killed by SIGXCPU: {said}")

    # An image of 24 MiB where the launcher's files end at 512 bytes.
    program = launch(t, BAD, "works")
    registered(t, "works")
    has_data(t, program)
    t.must("checkpoint", "--session", "works")
    os.kill(pid_of(t, "works"), signal.SIGABRT)
    t.wait_until(lambda: "killed by SIGABRT" in log_of(t, "works"), "the coordinator's last words")

    # Hard limits: said at the launch, and by the checkpoint that fails for it; the program goes on.
    if not may(24):  # CAP_SYS_RESOURCE: whoever has it may raise them
        program = launch(t, "r.setrlimit(r.RLIMIT_FSIZE, (1 << 24, 1 << 24)); r.setrlimit(r.RLIMIT_CPU, (3600, 3600))", "low")
        registered(t, "low")
        has_data(t, program)
        said = t._read(program.sink)
        check("ulimit -H -f" in said and "16777216" in said and "ulimit -H -t" in said, f"nothing said at the launch: {said!r}")
        check("16777216" in t.must("status", "--session", "low"), "nothing in the status")
        code, _, err = t.command("checkpoint", "--session", "low")
        check(code == 1 and "File too large" in err and "ulimit -H -f" in err, f"a checkpoint beyond the limit: {code} {err}")
        check(processes.stat(program.pid) is not None, "the program has gone")
        program = launch(t, "r.setrlimit(r.RLIMIT_FSIZE, (1 << 16, 1 << 16))", "tiny")
        check(program.exit_status() != 0 and "ulimit -H -f" in t._read(program.sink), f"no file of 64 KiB: {t._read(program.sink)!r}")
        program = launch(t, "r.setrlimit(r.RLIMIT_NOFILE, (8, 8))", "few")
        check(program.exit_status() != 0 and "ulimit -H -n" in t._read(program.sink), f"8 descriptors: {t._read(program.sink)!r}")
