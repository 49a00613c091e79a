"""Processes that a test starts, and all that descend from them.

The test makes itself a subreaper, so that whatever is orphaned below it (the coordinator's daemon, restored
orphans) stays its descendant: it can be reaped here, and nothing outlives the test.
"""

import ctypes
import os
import resource
import signal
import time

PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)
_ended = {}


def become_subreaper():
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def be_no_subreaper():
    """Orphans are init's, as they are outside of tests."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def limit_descriptors(soft, hard):
    """For this test and all that it starts. Nobody here may raise the hard limit again: root would by CAP_SYS_RESOURCE."""
    prctl_capbset_drop, cap_sys_resource = 24, 24
    _libc.prctl(prctl_capbset_drop, cap_sys_resource, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def reap():
    """Collects every child that has ended, ours and adopted ones."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _ended[pid] = status


def status_of(pid):
    """Wait status of an ended child, None while it lives."""
    reap()
    return _ended.get(pid)


def forget(pid):
    _ended.pop(pid, None)


def describe_status(status):
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.WEXITSTATUS(status)}"


def stat(pid):
    """(comm, state, ppid, pgrp, session, tty) or None."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.rpartition(")")
    fields = rest.split()
    return (name.partition("(")[2], fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[4]))


def _other_threads(pid):
    """Whether more than the main thread is left: a killed process whose other threads are still closing files has a zombie
    for its main thread."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def descendants(root=None):
    """Pids of all living descendants, ancestors before their children. Zombies are left out."""
    root = root or os.getpid()
    children, dead = {}, set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found = stat(int(entry))
            if found:
                children.setdefault(found[2], []).append(int(entry))
                if found[1] in "ZX" and not _other_threads(entry):
                    dead.add(int(entry))
    order, queue = [], [root]
    while queue:
        parent = queue.pop(0)
        for child in sorted(children.get(parent, [])):
            queue.append(child)
            if child not in dead:
                order.append(child)
    return order


def capture():
    """The pid of a capture at work below this test, or None."""
    for pid in descendants():
        found = stat(pid)
        if found and found[0].startswith("cairn-capture"):
            return pid
    return None


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def kill_tree(keep=(), timeout=20.0):
    """SIGKILLs all descendants but `keep` (and who descends from no other than them is not spared)."""
    limit = time.monotonic() + timeout
    empty = 0
    while True:
        reap()
        left = [pid for pid in descendants() if pid not in keep]
        # One look may miss an orphan: it has been read with its old parent, who was gone when it was his turn.
        empty = 0 if left else empty + 1
        if empty == 2:
            return
        if time.monotonic() > limit:
            raise RuntimeError(f"processes that SIGKILL did not end: {[(p, stat(p)) for p in left]}")
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.005)


def spawn(argv, *, env=None, cwd=None, stdin=None, stdout=None, stderr=None, terminal=None, new_session=False,
          ignore=()):
    """Starts a program; returns its pid. With `terminal` (a slave's path) it leads a session with that terminal as
    controlling one, and it is its stdin, stdout and stderr unless those are given (paths or descriptors)."""
    error_read, error_write = os.pipe()
    os.set_inheritable(error_write, False)
    pid = os.fork()
    if pid:
        forget(pid)  # an earlier process had this pid
        os.close(error_write)
        with os.fdopen(error_read) as errors:
            text = errors.read()
        if text:
            os.waitpid(pid, 0)
            raise RuntimeError(f"can't start {argv}: {text}")
        return pid
    try:
        os.close(error_read)
        slave = None
        if terminal:
            os.setsid()
            slave = os.open(terminal, os.O_RDWR)  # a leader without terminal gets it as its controlling one
        elif new_session:
            os.setsid()
        for number, target in ((0, stdin), (1, stdout), (2, stderr)):
            if isinstance(target, str):
                mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                target = os.open(target, mode, 0o644)
            if target is None:
                target = slave
            if target is not None:
                os.dup2(target, number)
        os.closerange(3, error_write)
        os.closerange(error_write + 1, 1024)
        for number in range(1, 65):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_IGN if number in ignore else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if cwd:
            os.chdir(cwd)
        os.execvpe(argv[0], argv, env if env is not None else os.environ)
    except BaseException as error:
        os.write(error_write, repr(error).encode())
    os._exit(127)


def report(pid):
    """What a process does, for a failure's dump."""
    found = stat(pid)
    if not found:
        return f"{pid}: gone"
    lines = [f"{pid} {found[0]} state={found[1]} ppid={found[2]} pgrp={found[3]} sid={found[4]}: {command_line(pid)[:160]}"]
    try:
        threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        threads = []
    for tid in threads[:20]:
        parts = []
        for name in ("comm", "wchan", "syscall"):
            try:
                with open(f"/proc/{pid}/task/{tid}/{name}", errors="replace") as file:
                    parts.append(file.read().strip())
            except OSError:
                parts.append("-")
        lines.append(f"    {tid} " + " | ".join(parts))
        try:
            with open(f"/proc/{pid}/task/{tid}/status", errors="replace") as file:
                kept = [line.strip().replace("\t", " ") for line in file
                        if line.startswith(("State", "TracerPid", "SigPnd", "ShdPnd", "SigBlk"))]
            lines.append("        " + ", ".join(kept))
            with open(f"/proc/{pid}/task/{tid}/stack") as file:
                lines.append("        " + " < ".join(line.split()[-1] for line in file.read().splitlines()[:4]))
        except OSError:
            pass
    return "\n".join(lines)
