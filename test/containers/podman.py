"""podman, with its own default profile, capabilities and masked paths: a job is saved in one container, killed with it, and goes on in
another; by root under a memory limit, with the engine's own first process and without, and by an ordinary user."""
# ci: none
# timeout: 600
import glob
import os
import re
import shutil
import subprocess
import tempfile
from cairn_test import Skip, check, modes
from cairn_test.containers import Image, Way, three_containers, undisturbed

# What there is on this machine; limits may not be above our own.
LIMITS = ["--ulimit", "nofile=10000:10000", "--ulimit", "nproc=10000:10000"]


class Engine:
    """podman with a storage of its own. `user`: rootless."""

    def __init__(self, t, user=None):
        self.t, self.user = t, user
        self.folder = tempfile.mkdtemp(prefix="cairn-", dir="/dev/shm")  # podman wants short names
        self.environment = {"HOME": self.folder, "XDG_RUNTIME_DIR": self.folder}
        runtime = "crun" if shutil.which("crun") and not os.path.exists("/sys/fs/cgroup/unified") else "runc"
        self.podman = ["podman", "--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run", "--runtime", runtime, "--cgroup-manager",
                       "cgroupfs"]
        if user:
            shutil.chown(self.folder, user.pw_uid, user.pw_gid)
            self.podman = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--inh-caps=-all", "--",
                           "env", *(f"{name}={value}" for name, value in self.environment.items()), *self.podman]

    def way(self, image, *options):
        def command(argv, environment):
            passed = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
            return [*self.podman, "run", "--rm", "--network", "none", *LIMITS, "--volume", f"{self.t.work}:{self.t.work}", *options, *passed,
                    *image, *argv]
        return Way(self.t, command, self.user and self.user.pw_name)

    def must(self, *words, timeout=300):
        done = subprocess.run([*self.podman, *words], capture_output=True, text=True, cwd="/", timeout=timeout)
        check(done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}")
        return done.stdout

    def close(self):
        subprocess.run([*self.podman, "rm", "--all", "--force", "--time", "0"], capture_output=True, cwd="/")
        if self.user:  # files of ids that only the user's own namespace has
            subprocess.run([*self.podman, "unshare", "rm", "-rf", f"{self.folder}/root"], capture_output=True, cwd="/")
        subprocess.run(["findmnt", "-rno", "TARGET"], capture_output=True)
        for line in open("/proc/self/mounts"):
            if self.folder in line:
                subprocess.run(["umount", "-l", line.split()[1]], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def by_root(t, expected):
    engine, image = Engine(t), Image(t)
    try:
        root = ["--rootfs", image.root]
        three_containers(t, engine.way(root, "--memory", "200m"), 150, expected, "root")
        three_containers(t, engine.way(root, "--init", "--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:rw,notmpcopyup"), 150, expected, "init")
    finally:
        engine.close()
        image.close()


def files_needed(t):
    """Of this machine's root what the job and cairn need: programs, their libraries, and links that lead to them."""
    programs = ["bash", "sh", "env", "python3", "redis-server", "redis-cli", "sha1sum", "cut", "sleep"]
    paths = [shutil.which(program, path="/usr/bin:/bin") for program in programs]
    tools = [os.path.join(t.build, "bin", name) for name in os.listdir(os.path.join(t.build, "bin")) if name.startswith("cairn-")]
    shown = subprocess.run(["ldd", *filter(None, paths), *tools], capture_output=True, text=True).stdout
    paths += re.findall(r"(/\S+\.so\S*) \(", shown)
    found = {path for path in ("/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/passwd", "/etc/group") if os.path.lexists(path)}
    for path in paths:
        folder = os.path.realpath(os.path.dirname(path))
        found |= {os.path.join(folder, os.path.basename(path)), os.path.realpath(path)}
    return sorted(path.lstrip("/") for path in {*found, *glob.glob("/usr/lib/python3*")} if os.path.lexists(path))


def by_user(t, expected):
    """Without root the files of an image are the user's own: it can't be this machine's root."""
    user = modes.ordinary_user()
    with open("/etc/subuid") as file:
        if not any(line.startswith(user.pw_name + ":") for line in file):
            t.skip_part("rootless", f"{user.pw_name} has no ids in /etc/subuid")
            return
    t.own_by_user()
    engine = Engine(t, user)
    try:
        tree = os.path.join(t.folder, "image.tar")
        subprocess.run(["tar", "-C", "/", "-cf", tree, "--exclude=dist-packages", "--exclude=__pycache__", *files_needed(t)], check=True,
                       capture_output=True)
        os.chmod(tree, 0o644)
        engine.must("import", tree, "cairn-test")
        os.remove(tree)
        build = ["--volume", f"{t.build}:{t.build}:ro", "--tmpfs", "/tmp"]
        three_containers(t, engine.way(["cairn-test"], *build), 150, expected, "user")
    finally:
        engine.close()


def test(t):
    for program in ("podman", "runc"):
        if not shutil.which(program):
            raise Skip(f"{program} isn't installed")
    expected = undisturbed(t, 150)
    by_root(t, expected)
    by_user(t, expected)
