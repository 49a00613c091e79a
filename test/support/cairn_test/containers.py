"""Containers: a job of three programs is saved in one, the whole container is killed, and it goes on in another one of the same image.

The image is the root of this machine. Each way of making a container says with which command it runs one (`Way.command`)."""
import os
import shutil
import signal
import subprocess
import time

from . import Failure, Skip, check, processes
from .session import SLOW, Beside

# Three programs, each of which writes what it has come to.
JOB = r"""
set -u
cd "$1"; steps=$2
python3 -c '
import sys, threading, time
steps, parts, gate = int(sys.argv[1]), [1, 2, 3, 4], threading.Barrier(4)
def work(n):
    for step in range(steps):
        parts[n] = (parts[n] * 6364136223846793005 + step) % 2**64
        gate.wait()
        time.sleep(0.05)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
open("threads.result", "w").write(str(parts))
' "$steps" &
redis-server --port "$3" --bind 127.0.0.1 --save '' --appendonly no > redis.log 2>&1 &
(
    until redis-cli -p "$3" ping; do sleep 0.1; done > /dev/null 2>&1
    for ((i = 0; i < steps; ++i)); do redis-cli -p "$3" incrby sum $i > /dev/null; sleep 0.02; done
    redis-cli -p "$3" get sum > redis.result
    redis-cli -p "$3" shutdown nosave
) &
exec 7<> children.log 8>&7
for ((i = 0; i < steps; ++i)); do
    digest=$(printf '%s %s' "${digest:-}" $i | sha1sum | cut -c 1-40)
    echo "$i $digest" >&8
    sleep 0.02
done
echo "$digest" > children.result
wait
echo done > all.result
"""
RESULTS = ["threads.result", "redis.result", "children.result", "children.log", "all.result"]

# As engines prepare a container: an image under an overlay, devices of its own, paths of /proc that are masked or can only be read.
# $1: a folder for the overlay, $2: a folder of the machine that is seen in it as well; then the command.
ENTER = r"""
set -e
mount --make-rprivate /
memory=$1 shared=$2 root=$1/root
shift 2
mount -t tmpfs -o mode=0755 memory "$memory"
mkdir "$memory"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" root "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount -t tmpfs -o mode=0755 dev "$root/dev"
mkdir -p "$root"/dev/{pts,shm,mqueue}
for device in null zero full random urandom tty; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
ln -s /proc/self/fd "$root/dev/fd"
mount -t devpts -o newinstance,mode=620,ptmxmode=666 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mkdir -p "$root$shared"
mount --bind "$shared" "$root$shared"
for path in acpi kcore keys latency_stats timer_list sched_debug scsi; do
    if [[ -d $root/proc/$path ]]; then mount -t tmpfs -o ro none "$root/proc/$path"
    elif [[ -e $root/proc/$path ]]; then mount --bind /dev/null "$root/proc/$path"; fi
done
for path in bus fs irq sys; do
    [[ ! -d $root/proc/$path ]] || { mount --bind "$root/proc/$path" "$root/proc/$path"; mount -o remount,ro,bind "$root/proc/$path"; }
done
[[ -z ${BOX_READ_ONLY:-} ]] || mount -o remount,ro,bind "$root"
ip link set lo up
cd "$root"
mkdir -p "$memory/old"
pivot_root . ./tmp
umount -l ./tmp
exec "$@"
"""

# What the default profile of Docker's (moby, profiles/seccomp) refuses to a container without capabilities for it, as far as cairn
# or its programs might ask for it; clone by its flags. The names are those of the system calls of x86-64.
# NO_QUERY in the environment: fcntl is as in kernels before 6.10, without F_DUPFD_QUERY.
FILTER = r"""
import ctypes, os, struct, sys
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
def step(code, value, if_so=0, if_not=0):
    return struct.pack("HBBI", code, if_so, if_not, value)
ALLOW, EPERM, ENOSYS, EINVAL = 0x7fff0000, 0x00050001, 0x00050026, 0x00050016
refused = dict(kcmp=312, pidfd_getfd=438, process_madvise=440, userfaultfd=323, unshare=272, setns=308, mount=165, umount2=166,
               pivot_root=155, open_tree=428, move_mount=429, fsopen=430, fsmount=432, mount_setattr=442, sethostname=170,
               add_key=248, request_key=249, keyctl=250, mbind=237, set_mempolicy=238, get_mempolicy=239, perf_event_open=298,
               bpf=321, open_by_handle_at=304, syslog=103, io_uring_setup=425, io_uring_enter=426, io_uring_register=427)
code = step(0x20, 0)
for number in refused.values():
    code += step(0x15, number, 0, 1) + step(0x06, EPERM)
code += step(0x15, 435, 0, 1) + step(0x06, ENOSYS)  # clone3
code += step(0x15, 56, 0, 4) + step(0x20, 16) + step(0x45, 0x7e020000, 0, 1) + step(0x06, EPERM) + step(0x06, ALLOW)  # clone
if os.environ.pop("NO_QUERY", ""):
    code += step(0x15, 72, 0, 4) + step(0x20, 24) + step(0x15, 1027, 0, 1) + step(0x06, EINVAL) + step(0x06, ALLOW)
code += step(0x06, ALLOW)
held = ctypes.create_string_buffer(code, len(code))
program = Program(len(code) // 8, ctypes.cast(held, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    raise OSError(ctypes.get_errno(), "prctl")
os.execvp(sys.argv[1], sys.argv[1:])
"""
DOCKERS_CAPABILITIES = ("chown", "dac_override", "fsetid", "fowner", "mknod", "net_raw", "setgid", "setuid", "setfcap", "setpcap",
                        "net_bind_service", "sys_chroot", "kill", "audit_write")


class Image:
    """This machine's root under an overlay in memory, which is thrown away with it: a folder for who wants one."""

    def __init__(self, t):
        self.memory = os.path.join(t.folder, f"image.{len(os.listdir(t.folder))}")
        self.root = os.path.join(self.memory, "root")
        os.mkdir(self.memory)
        self._must("mount", "-t", "tmpfs", "-o", "mode=0755", "memory", self.memory)
        for name in ("upper", "work", "root"):
            os.mkdir(os.path.join(self.memory, name))
        self._must("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={self.memory}/upper,workdir={self.memory}/work", "image", self.root)

    @staticmethod
    def _must(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        check(done.returncode == 0, f"{' '.join(command)}: {done.stderr}")

    def close(self):
        for path in (self.root, self.memory):
            subprocess.run(["umount", "-l", path], capture_output=True)


class Way:
    """`command(argv, environment)`: the command that runs argv in a new container."""

    def __init__(self, t, command, user=None):
        self.t, self.command, self.user, self.count = t, command, user, 0

    def start(self, argv, **variables):
        return Box(self, argv, variables)


class Box:
    """One container."""

    def __init__(self, way, argv, variables):
        self.t, self.way = way.t, way
        way.count += 1
        self.mark = f"{os.path.basename(self.t.folder)}.{way.count}"
        self.said = os.path.join(self.t.folder, f"box.{way.count}.txt")
        environment = {"CAIRN_TEST_BOX": self.mark, "CAIRN_SESSION": "default", "LC_ALL": "C.UTF-8", "HOME": "/tmp",
                       "PATH": f"{self.t.build}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **variables}
        with open(self.said, "wb") as out:
            self.process = Beside(processes.spawn(way.command(argv, environment), env=environment, cwd="/", stdin="/dev/null", stdout=out.fileno(),
                                                  stderr=out.fileno(), new_session=True))

    def text(self):
        with open(self.said, errors="replace") as file:
            return file.read()

    def ended(self):
        return self.process.code()

    def init(self):
        """The first process of its pid namespace, by the id that it has here."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = f"CAIRN_TEST_BOX={self.mark}\0".encode() in file.read()
                with open(f"/proc/{pid}/status") as file:
                    ids = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
            except (OSError, StopIteration):
                continue
            if ours and len(ids) > 1 and ids[-1] == "1":
                return int(pid)
        return None

    def kill(self):
        """Nothing in it gets another instruction."""
        init = self.init()
        check(init is not None, f"the container has no first process:\n{self.text()}")
        os.kill(init, signal.SIGKILL)
        self.t.wait_until(lambda: self.ended() is not None, "the killed container to end")

    def wait_for(self, condition, what, timeout=60):
        def look():
            found = condition()
            if not found and self.ended() is not None:
                raise Failure(f"the container ended with {self.ended()} while {what} was awaited:\n{self.text()}")
            return found
        return self.t.wait_until(look, f"{what}; the container said:\n{self.text()}", timeout)


def generation(ckpt):
    try:
        return int(os.path.basename(os.readlink(os.path.join(ckpt, "latest"))))
    except (OSError, ValueError):
        return 0


def prepare(t, name, steps):
    folder = os.path.join(t.work, name)
    os.makedirs(folder)
    with open(os.path.join(t.work, "job.sh"), "w") as file:
        file.write(JOB)
    port = str(t.random.randrange(20000, 30000))
    return folder, ["bash", os.path.join(t.work, "job.sh"), folder, str(steps), port]


def results_in(folder):
    found = {}
    for name in RESULTS:
        try:
            with open(os.path.join(folder, name)) as file:
                found[name] = file.read()
        except OSError:
            found[name] = None
    return found


def undisturbed(t, steps):
    """What the job comes to on its own."""
    for program in ("redis-server", "redis-cli"):
        if not shutil.which(program):
            raise Skip("redis isn't installed")
    folder, argv = prepare(t, "undisturbed", steps)
    code, out, err = t.run(argv, timeout=120)
    found = results_in(folder)
    check(code == 0 and None not in found.values(), f"the job itself fails: {code} {out} {err} {found}")
    return found


def three_containers(t, way, steps, expected, name="job", first=(), later=()):
    """Launched in one, killed with it after a checkpoint, restarted in the next one; as often as the test has rounds. `first` and `later`:
    in front of `cairn launch` and `cairn restart`, where these are not to be the first process."""
    folder, argv = prepare(t, name, steps)
    ckpt = os.path.join(t.work, name + ".ckpt")
    os.makedirs(ckpt)
    if way.user:
        for path in (folder, ckpt):
            shutil.chown(path, way.user, way.user)
    box = way.start([*first, t.cairn, "launch", "--ckptdir", ckpt, "--interval", "1", "--", *argv])
    seen = 0
    for number in range(t.rounds):
        seen = box.wait_for(lambda: generation(ckpt) > seen and generation(ckpt), f"a checkpoint behind {seen}")
        check(results_in(folder)["all.result"] is None, "the job ended before its container was killed: no round was run")
        box.kill()
        box = way.start([*later, t.cairn, "restart", ckpt], CAIRN_INTERVAL="1")
        box.wait_for(lambda: "go on" in box.text() or "goes on" in box.text(), "the restart")
        t.say(f"{name}: round {number + 1}: checkpoint {seen}, the container was killed, it went on in another")
    t.wait_until(lambda: box.ended() is not None, f"the job to end; the container said:\n{box.text()}", 120)
    check(box.ended() == 0, f"the last container ended with {box.ended()}:\n{box.text()}")
    found = results_in(folder)
    for name in RESULTS:
        check(found[name] == expected[name], f"{name}: {(found[name] or 'nothing')[-200:]} instead of {expected[name][-200:]}; the last container said:"
                                             f"\n{box.text()}")
