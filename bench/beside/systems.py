"""The systems that bench/peers measures, each as its own users call it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess


class Failed(Exception):
    pass


def run(command, env=None, timeout=600, cwd=None):
    try:
        done = subprocess.run([str(c) for c in command], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Failed(f"{pathlib.Path(command[0]).name}: {problem}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failed(f"{pathlib.Path(command[0]).name} {command[1]}: exit {done.returncode}: {said[-1] if said else 'it says nothing'}")
    return done.stdout


def size_of(folder):
    """Bytes on the disk of everything in there."""
    return sum(each.lstat().st_blocks * 512 for each in folder.rglob("*") if each.is_file())


class System:
    """`start`, then `checkpoint`, `kill` and `restart` as often as one likes, then `close`. A checkpoint has ended when its
    files are on the disk."""
    name = ""
    lazy = False  # can it begin before all memory is there?

    def __init__(self, work):
        self.work = work / self.name
        shutil.rmtree(self.work, ignore_errors=True)
        self.images = self.work / "images"
        self.images.mkdir(parents=True)
        self.children = []

    def spawn(self, command, env=None, cwd=None):
        """In a session of its own, without a terminal."""
        with open(self.work / f"log{len(self.children)}", "ab") as log:
            self.children.append(subprocess.Popen([str(c) for c in command], env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                                  stdout=log, stderr=log, start_new_session=True))
        return self.children[-1]

    def said(self):
        text = "".join((self.work / f"log{i}").read_text(errors="replace") for i in range(len(self.children)))
        return text.strip().splitlines()[-1] if text.strip() else "it says nothing"

    def alive(self):
        """Nobody whom it has started last has failed."""
        return not self.children or self.children[-1].poll() in (None, 0)

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
        shutil.rmtree(self.work, ignore_errors=True)


class Cairn(System):
    name = "cairn"
    lazy = os.geteuid() == 0

    def __init__(self, work, build, full=True):
        super().__init__(work)
        self.cairn = build / "bin" / "cairn"
        self.env = dict(os.environ, CAIRN_RUNDIR=str(self.work / "run"), CAIRN_SESSION="peers", CAIRN_CKPTDIR=str(self.images))
        if full:
            self.env["CAIRN_FULL"] = "1"
        else:
            self.env["CAIRN_TRACK_MEM"] = "1"

    def start(self, command):
        self.spawn([self.cairn, "launch", *command], env=self.env)

    def checkpoint(self):
        return json.loads(run([self.cairn, "checkpoint", "--json"], env=self.env))["bytes"]

    def kill(self):
        run([self.cairn, "kill"], env=self.env)
        self.children[-1].wait()

    def restart(self, lazy=False):
        self.spawn([self.cairn, "restart", "--lazy" if lazy else "--eager", self.images], env=self.env)

    def close(self):
        for word in ("kill", "quit"):
            subprocess.run([self.cairn, word], env=self.env, capture_output=True, timeout=60, check=False)
        super().close()


def descendants(pid):
    children = [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid] + [each for child in children for each in descendants(child)]


class Criu(System):
    """Of the first process's tree; restored with the same ids. It leaves its files to the page cache, so the disk is waited for."""
    name = "CRIU"

    def __init__(self, work, path, track=False):
        super().__init__(work)
        self.path, self.track, self.number, self.first, self.tree = path, track, 0, None, []

    def start(self, command):
        self.first = self.spawn(command).pid

    def folder(self):
        return self.images / str(self.number)

    def checkpoint(self):
        before, self.number = self.folder(), self.number + 1
        self.folder().mkdir()
        self.tree = descendants(self.first)
        incremental = ["--track-mem"] + (["--prev-images-dir", f"../{before.name}"] if before.exists() else []) if self.track else []
        run([self.path, "dump", "-t", self.first, "-D", self.folder(), "--leave-running", "-v1", *incremental])
        run(["sync", "-f", self.folder()])
        return size_of(self.folder())

    def kill(self):
        for pid in self.tree:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for child in self.children:
            child.wait()

    def restart(self, lazy=False):
        self.spawn([self.path, "restore", "-D", self.folder(), "-v1"])

    def close(self):
        self.kill()
        super().close()


class Dmtcp(System):
    """`path`: the folder of its commands."""
    name = "DMTCP"
    port = 7799

    def __init__(self, work, path):
        super().__init__(work)
        self.path = path
        self.env = dict(os.environ, DMTCP_COORD_HOST="127.0.0.1", DMTCP_COORD_PORT=str(self.port), DMTCP_CHECKPOINT_DIR=str(self.images),
                        DMTCP_GZIP="0", DMTCP_TMPDIR=str(self.work))
        run([path / "dmtcp_coordinator", "--daemon", "-p", self.port, "--ckptdir", self.images], env=self.env)

    def start(self, command):
        self.spawn([self.path / "dmtcp_launch", *command], env=self.env)

    def checkpoint(self):
        run([self.path / "dmtcp_command", "--bcheckpoint"], env=self.env)
        run(["sync", "-f", self.images])
        return size_of(self.images)

    def kill(self):
        run([self.path / "dmtcp_command", "--kill"], env=self.env)
        self.children[-1].wait()

    def restart(self, lazy=False):
        images = sorted(self.images.glob("ckpt_*.dmtcp"))
        self.spawn([self.path / "dmtcp_restart", *images], env=self.env)

    def close(self):
        subprocess.run([self.path / "dmtcp_command", "--quit"], env=self.env, capture_output=True, timeout=60, check=False)
        super().close()
