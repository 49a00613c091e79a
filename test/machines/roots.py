"""Root file systems of Debian's distributions, made by debootstrap, and how something is run in one of them: what it writes there goes
to memory, and is gone afterwards."""
import pathlib
import shutil
import subprocess
import sys

ARCHIVE = "http://deb.debian.org/debian"
# The libc of each: 2.31, 2.36, 2.41, and what comes next.
DISTRIBUTIONS = ("bullseye", "bookworm", "trixie", "sid")
# What the tests of other programs checkpoint there, and the tests themselves.
PACKAGES = ("bash dash zsh perl python3 python3-numpy sqlite3 vim less xz-utils procps psmisc util-linux iproute2 redis-server "
            "nginx-light curl tmux gdb make g++ libc6-dev ca-certificates").split()

# In a mount namespace of its own; $1: the root, then how each folder is to be seen there (ro:PATH or rw:PATH).
ENTER = r"""
set -e
mount --make-rprivate /
memory=$(mktemp -d)
mount -t tmpfs -o size=50% memory "$memory"
mkdir "$memory"/{upper,work,root}
mount -t overlay -o "lowerdir=$1,upperdir=$memory/upper,workdir=$memory/work" root "$memory/root"
root=$memory/root
shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=0755 dev "$root/dev"
mkdir -p "$root"/dev/{pts,shm,mqueue}
for device in null zero full random urandom tty; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
ln -s /proc/self/fd "$root/dev/fd"
mount -t devpts -o newinstance,gid=5,mode=620,ptmxmode=666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
while [[ $1 != -- ]]; do
    mkdir -p "$root/${1#*:}"
    mount --bind "${1#*:}" "$root/${1#*:}"
    [[ $1 == rw:* ]] || mount -o remount,ro,bind "$root/${1#*:}"
    shift
done
shift
ip link set lo up 2>/dev/null || true
exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
"""


class Root:
    """One distribution's root below `cache`; made if it isn't there, which takes some minutes."""

    def __init__(self, name, cache, kind="", packages=PACKAGES):
        """`kind`: what another choice of packages is called."""
        self.name, self.path = name, pathlib.Path(cache) / (name + kind)
        if self.path.is_dir():
            return
        if shutil.which("debootstrap") is None:
            sys.exit("distributions: debootstrap: not installed; apt-get install debootstrap")
        made = self.path.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        print(f"{name}: debootstrap", flush=True)
        with open(self.path.with_suffix(".log"), "w", encoding="utf-8") as log:
            done = subprocess.run(["debootstrap", "--variant=minbase", name, made, ARCHIVE], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if done.returncode == 0:
                # Nothing is to be started there, and no question to be asked.
                (made / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
                (made / "usr/sbin/policy-rc.d").chmod(0o755)
                done = subprocess.run(["chroot", made, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "install",
                                       "--no-install-recommends", *packages], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            sys.exit(f"distributions: {name} can't be made: see {log.name}")
        made.rename(self.path)

    def run(self, command, folders=(), timeout=600, network=False):
        """(exit status, what it printed): a list of words, run as root in namespaces of its own. `folders`: "ro:PATH" or "rw:PATH" of this
        machine, to be seen at the same place. `network`: with this machine's, to fetch packages."""
        enter = ["unshare", "--mount", "--pid", "--ipc", *([] if network else ["--net"]), "--fork", "--kill-child", "bash", "-c", ENTER, "enter", self.path, *folders, "--", *command]
        done = subprocess.run(["timeout", "-k", "10", str(timeout), *enter], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode(errors="replace")


class CleanRoot(Root):
    """A new root with nothing but what apt needs and `packages`, made by mmdebstrap, which takes half as long as debootstrap."""

    def __init__(self, name, path, packages=()):
        self.name, self.path = name, pathlib.Path(path)
        wanted = [f"--include={','.join(packages)}"] if packages else []
        # With apt's lists, so that packages can be installed without another update.
        # In a mount namespace of its own: mmdebstrap mounts in the root while it makes it, and if it is killed meanwhile nothing of that stays.
        done = subprocess.run(["unshare", "--mount", "mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--skip=cleanup/apt/lists", *wanted, name, self.path, ARCHIVE],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"mmdebstrap {name}: {done.stdout[-3000:]}")
        (self.path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (self.path / "usr/sbin/policy-rc.d").chmod(0o755)
