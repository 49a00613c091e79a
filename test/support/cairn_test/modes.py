"""Who runs the test and which ids a restart asks for: four ways, of which root has two and an ordinary user two.

exact    root, clone3 set_tid                    virtual  root, ids translated
user     ordinary user without capabilities,     userns   ordinary user in a user and pid namespace of its own,
         ids translated                                   exact ids
"""

import ctypes
import os
import pwd
import signal
import subprocess
import sys

MODES = ("exact", "virtual", "user", "userns")
USER = "cairntest"
_MARK = "CAIRN_TEST_MODE"


def ordinary_user():
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return pwd.getpwnam(USER)  # two tests may have made it at once
        except KeyError:
            sys.exit(f"can't make the user {USER}: as root, run useradd {USER}")


def _as_user(command):
    """An ordinary user without any capability, a login's environment and no open descriptor of ours."""
    if os.getuid() != 0:
        return command
    user = ordinary_user()
    kept = [f"{key}={value}" for key, value in os.environ.items() if key.startswith(("CAIRN_TEST", "CAIRN_BUILD"))]
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--inh-caps=-all",
            "--bounding-set=-all", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={user.pw_dir}",
            f"USER={USER}", f"LOGNAME={USER}", "LANG=C.UTF-8", "TERM=xterm", *kept, *command]


def _be_init():
    """The first process of the namespace: everything else is its descendant. Returns in the child."""
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        return
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def own_command():
    """What runs this test once more."""
    return [sys.executable, os.path.dirname(os.path.abspath(__file__)), *sys.argv]


def enter_own_network():
    """Ports of a program that has been killed are free for everybody until it is restarted: here nobody else is. An ordinary user stays where root
    has put him, and where he has begun the test himself he has the machine's network."""
    if os.getuid() != 0 or os.environ.get(_MARK):
        return
    clone_newnet = 0x40000000
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def enter_own_mounts():
    """What root mounts from here on goes with the last process below: a run that is killed leaves nothing mounted on the machine. Others have such a
    namespace already, or may mount nothing."""
    if os.getuid() != 0:
        return
    clone_newns, ms_rec, ms_private = 0x20000, 0x4000, 0x40000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(clone_newns) != 0 or libc.mount(None, b"/", None, ms_rec | ms_private, None) != 0:
        raise OSError(ctypes.get_errno(), "mounts of its own")


def enter(mode):
    """Runs this program again in the surroundings that the mode asks for; returns once there."""
    if os.environ.get(_MARK) == mode:
        if mode == "userns":
            _be_init()
        return
    os.environ[_MARK] = mode
    command = own_command()
    if mode in ("exact", "virtual"):
        if os.getuid() != 0:
            sys.exit(f"mode {mode} needs root; an ordinary user has the modes user and userns")
        return
    if mode == "userns":
        # Bounding set kept: inside the new user namespace the process has every capability over it anyway.
        command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", *command]
        if os.getuid() == 0:
            command = [word for word in _as_user(command) if word != "--bounding-set=-all"]
    else:
        command = _as_user(command)
    sys.stdout.flush()
    os.chdir("/")
    os.execvp(command[0], command)


def ids_of(mode):
    return "exact" if mode in ("exact", "userns") else "virtual"
