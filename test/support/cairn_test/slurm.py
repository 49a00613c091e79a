"""A Slurm of the test's own: munged, slurmctld and a slurmd for each node, with the configuration, spool and key below the test's folder. A node
is a network, host name and mount namespace with an address of its own, as Debian's slurmd can't run several times on a host. Root only."""

import hashlib
import os
import re
import shutil
import subprocess
import time

from . import Skip, check, modes, processes
from .hosts import run
from .session import Failure

NUMBERS = """
import hashlib, os, sys, time
value = b"cairn"
for step in range(int(sys.argv[1])):
    value = hashlib.sha256(value).digest()
    os.path.exists(sys.argv[2] + ".hurry") or time.sleep(0.05)
    with open(sys.argv[2] + ".step", "w") as file:
        file.write(str(step))
with open(sys.argv[2], "w") as file:
    file.write(value.hex())
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "srun")
CONFIGURATION = """
ClusterName=cairn
SlurmctldHost=ctl({address})
SlurmUser=root
SlurmctldPort={port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=8
SlurmctldTimeout=8
KillWait=5
MessageTimeout=10
ReturnToService=2
InactiveLimit=0
SlurmdParameters=config_overrides
{more}
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=20 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


class Node:
    def __init__(self, cluster, number, name):
        self.cluster, self.name = cluster, name
        self.netns = f"slurm{os.getpid()}{name}"
        self.address = f"10.92.0.{number + 1}"
        self.daemon = None

    def command(self, *argv):
        """Within the node's namespaces: its network, its name, and a table of hosts that knows all others."""
        setup = f"hostname {self.name} && mount --bind {self.cluster.folder}/hosts /etc/hosts && exec \"$@\""
        return ["nsenter", f"--net=/run/netns/{self.netns}", "unshare", "--uts", "--mount", "sh", "-c", setup, "sh", *map(str, argv)]

    def start(self):
        log = os.path.join(self.cluster.folder, f"daemon-{self.name}.out")
        program = ["slurmctld", "-D"] if self.name == "ctl" else ["slurmd", "-D", "-N", self.name]
        self.daemon = processes.spawn(self.command(*program), env=self.cluster.env, cwd="/", stdin="/dev/null", stdout=log, stderr=log,
                                      new_session=True)

    def pids(self):
        done = subprocess.run(["ip", "netns", "pids", self.netns], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]

    def kill(self):
        """As if the power had gone: the daemon and all that runs there."""
        while left := [pid for pid in self.pids() if (processes.stat(pid) or ("", "Z"))[1] not in "ZX"]:
            for pid in left:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            self.cluster.t.sleep(0.02)


class Cluster:
    """`with Cluster(t, 2) as slurm:` jobs are submitted by root, or with user=True by an ordinary user. Nodes are n1, n2, ..."""

    def __init__(self, t, count, user=False, more="", plugstack=""):
        missing = [name for name in PROGRAMS if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]
        if missing:
            raise Skip(f"not installed: {', '.join(missing)}")
        self.t, self.more, self.plugstack = t, more, plugstack
        self.folder = os.path.join(t.folder, "slurm")
        self.user = modes.ordinary_user() if user else None
        os.chmod(t.folder, 0o755)
        if user:
            os.chown(t.work, self.user.pw_uid, self.user.pw_gid)
        self.bridge = f"sbr{os.getpid()}"
        self.controller = Node(self, 0, "ctl")
        self.nodes = [Node(self, number, f"n{number}") for number in range(1, count + 1)]
        path = f"{t.build}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.env = {"PATH": path, "SLURM_CONF": f"{self.folder}/slurm.conf", "LANG": "C.UTF-8", "SLURM_TIME_FORMAT": "%s",
                    "CAIRN_RUNDIR": f"{t.work}/run"}
        self.munged = None

    def __enter__(self):
        folder = self.folder
        for name in "munge", "state":
            os.makedirs(os.path.join(folder, name), mode=0o755)
        with open(f"{folder}/munge/key", "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(128))
        every = [self.controller, *self.nodes]
        with open(f"{folder}/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{node.address} {node.name}\n" for node in every))
        nodes = "\n".join(f"NodeName={node.name} NodeAddr={node.address} CPUs=4 RealMemory=1000" for node in self.nodes)
        with open(self.env["SLURM_CONF"], "w") as file:
            file.write(CONFIGURATION.format(folder=folder, nodes=nodes, address=self.controller.address, port=6817, slurmd_port=6818,
                                            more=self.more))
        with open(f"{folder}/cgroup.conf", "w") as file:
            file.write("CgroupAutomount=no\n")
        with open(f"{folder}/plugstack.conf", "w") as file:
            file.write(self.plugstack + "\n")
        run(f"ip netns add {self.bridge}; ip -n {self.bridge} link add br0 type bridge; ip -n {self.bridge} link set br0 up")
        for node in every:
            run(f"ip netns add {node.netns} && ip link add v{node.name} netns {self.bridge} type veth peer name eth0 netns {node.netns} && "
                f"ip -n {self.bridge} link set v{node.name} master br0 up && ip -n {node.netns} link set eth0 up && "
                f"ip -n {node.netns} link set lo up && ip -n {node.netns} addr add {node.address}/24 dev eth0")
        self.munged = processes.spawn(["/usr/sbin/munged", "--foreground", "--force", f"--key-file={folder}/munge/key",
                                       f"--socket={folder}/munge/socket", f"--pid-file={folder}/munge/pid",
                                       f"--log-file={folder}/munge/log", f"--seed-file={folder}/munge/seed"], env=self.env, cwd="/",
                                      stdin="/dev/null", stdout=f"{folder}/munge/out", stderr=f"{folder}/munge/out", new_session=True)
        self.t.wait_until(lambda: os.path.exists(f"{folder}/munge/socket"), "munged")
        for node in every:
            node.start()
        self.wait_idle(*self.nodes)
        return self

    def __exit__(self, *failure):
        if failure[0]:
            for name in sorted(os.listdir(self.folder)):
                if name.endswith(".log"):
                    self.t.say(f"---- {name}\n{self.read(os.path.join(self.folder, name))[-1500:]}")
            for name in sorted(os.listdir(self.t.work)):
                if name.endswith(".out"):
                    self.t.say(f"---- {name}\n{self.read(os.path.join(self.t.work, name))[-4000:]}")
        for node in [*self.nodes, self.controller]:
            node.kill()
        if self.munged:
            os.kill(self.munged, 9)
        for name in [node.netns for node in [self.controller, *self.nodes]] + [self.bridge]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def read(path):
        return open(path, errors="replace").read() if os.path.exists(path) else ""

    # ---- Slurm's commands, at the controller ---------------------------------------------------------------------

    def command(self, *argv, timeout=60, root=False):
        become = []
        if self.user and not root:
            become = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups", "--inh-caps=-all",
                      "--bounding-set=-all"]
        return self.t.run(["nsenter", f"--net=/run/netns/{self.controller.netns}", *become, *map(str, argv)], timeout=timeout, env=self.env)

    def must(self, *argv, **options):
        code, out, err = self.command(*argv, **options)
        check(code == 0, f"{' '.join(map(str, argv))} ended with {code}: {err or out}")
        return out

    def submit(self, lines, *options, name="job", arguments=()):
        """A batch script of these lines; its output is appended to NAME.out. Returns the job's number."""
        script = os.path.join(self.t.work, f"{name}.sh")
        with open(script, "w") as file:
            file.write("#!/bin/bash\n" + "\n".join(lines) + "\n")
        os.chmod(script, 0o755)
        out = os.path.join(self.t.work, f"{name}.out")
        out = self.must("sbatch", "--parsable", "--requeue", "--open-mode=append", "-D", self.t.work, "-o", out, *options, script, *arguments)
        return int(out)

    def field(self, job, name):
        code, out, _ = self.command("scontrol", "show", "-o", "job", str(job), root=True)
        found = re.search(rf"(?:^| ){name}=(.*?)(?= [A-Z][A-Za-z/:]*=|$)", out.strip(), re.M) if code == 0 else None
        return found[1] if found else ""

    def state(self, job):
        return self.field(job, "JobState")

    def wait_state(self, job, *states, timeout=60):
        try:
            self.t.wait_until(lambda: self.state(job) in states, f"job {job} to be {' or '.join(states)}", timeout)
        except Failure as failure:
            raise Failure(f"{failure}; it is {self.state(job)}, {self.field(job, 'Reason')}") from None

    def node_states(self):
        out = self.must("sinfo", "-h", "-N", "-o", "%N %t", root=True)
        return dict(line.split() for line in set(out.splitlines()))

    def wait_idle(self, *nodes, timeout=40):
        names = [node.name for node in nodes]

        def idle():
            code, out, _ = self.command("sinfo", "-h", "-N", "-p", "low", "-o", "%N %t", root=True, timeout=15)
            found = dict(line.split() for line in out.splitlines()) if code == 0 else {}
            return all(found.get(name) == "idle" for name in names)
        self.t.wait_until(idle, f"the nodes {' '.join(names)} to be idle", timeout)

    # ---- jobs that go on ------------------------------------------------------------------------------------------

    def numbers(self, name="chain.py", text=NUMBERS):
        """A program STEPS RESULT, which takes a twentieth of a second for each step, and says in RESULT.step how far it is. check_ended lets it
        take the rest at once: a test asks for more steps than the slowest machine comes to before it."""
        path = os.path.join(self.t.work, name)
        with open(path, "w") as file:
            file.write(text)
        return f"/usr/bin/python3 {path}"

    @staticmethod
    def expected(steps):
        value = b"cairn"
        for _ in range(steps):
            value = hashlib.sha256(value).digest()
        return value.hex()

    def step(self, result):
        path = os.path.join(self.t.work, result + ".step")
        text = ""
        for _ in range(100):  # it may be about to be written anew
            if not os.path.exists(path) or (text := self.read(path)):
                break
            self.t.sleep(0.01)
        return int(text) if text else 0

    def wait_steps(self, result, more, timeout=60):
        """Waits until the job has gone on by so many steps."""
        before = self.step(result)
        self.t.wait_until(lambda: self.step(result) >= before + more, f"{result} to go on from step {before}", timeout)

    def wait_comment(self, job, timeout=60):
        """Until squeue's comment tells of another checkpoint than now."""
        before = self.field(job, "Comment")
        try:
            self.t.wait_until(lambda: self.field(job, "Comment") not in ("", before), f"a checkpoint behind '{before}'", timeout)
        except Failure as failure:
            logs = [os.path.join(at, name) for at, _, names in os.walk(self.env["CAIRN_RUNDIR"]) for name in names if name.endswith(".log")]
            raise Failure(f"{failure}; job {job} is {self.state(job)}\n" + "\n".join(self.read(path) for path in sorted(logs))) from None
        return self.field(job, "Comment")

    def wait_saved(self, timeout=60):
        """Until the controller has stored what it knows of jobs now: one that is killed before that takes a job that runs for pending."""
        now, path = time.time(), f"{self.folder}/state/job_state"
        self.t.wait_until(lambda: os.path.exists(path) and os.path.getmtime(path) > now + 1, "the controller to store its state", timeout)

    def wait_killed(self, timeout=60):
        """Until nothing of any job is left on the nodes: one that is requeued is pending while Slurm still kills it, and may save itself once more."""
        def left():
            found = (processes.stat(pid) for node in self.nodes for pid in node.pids())
            return any(each and each[1] not in "ZX" and not each[0].startswith("slurm") for each in found)
        self.t.wait_until(lambda: not left(), "the job's processes to end", timeout)

    def again(self, job, timeout=90):
        """A job that has been requeued runs again; returns its nodes. Slurm waits for cred_expire first: before that a node takes the job for killed."""
        self.wait_state(job, "PENDING", timeout=timeout)
        self.wait_state(job, "RUNNING", timeout=timeout)
        return self.field(job, "NodeList")

    def preempt(self, job, timeout=90):
        """A job of higher priority takes the nodes that the job has. Returns those on which the job goes on."""
        nodes = self.field(job, "NodeList")
        self.submit(["sleep 15"], "-p", "high", "-w", nodes, "-N", str(self.field(job, "NumNodes")), "--exclusive", name="high")
        return self.again(job, timeout)

    def check_ended(self, job, result, steps, timeout=120):
        with open(os.path.join(self.t.work, result + ".hurry"), "w"):
            pass
        self.wait_state(job, "COMPLETED", "FAILED", timeout=timeout)
        check(self.state(job) == "COMPLETED", f"job {job} is {self.state(job)}, exit code {self.field(job, 'ExitCode')}")
        said = self.read(os.path.join(self.t.work, result))
        check(said == self.expected(steps), f"{result} is {said}, undisturbed it is {self.expected(steps)}")
