"""An MPI job of four ranks over TCP, two on each of two hosts, started by mpiexec over ssh: three rounds of checkpoint, kill -9 and
restart, each host with its own part, with the parts swapped, and with the hosts' addresses swapped. What it prints is what the same job
prints undisturbed. `mpi.py openmpi`: the other MPI. `mpi.py user`: by an ordinary user. `mpi.py four`: a rank on each of four hosts."""
# timeout: 900
# soak mpi:
# soak mpi_user: user
# soak mpi_openmpi: openmpi
# soak mpi_openmpi_user: openmpi user
# soak mpi_four: four
# soak mpi_four_openmpi: four openmpi
import difflib
import os
import shutil
import time
from cairn_test import Skip, check, processes
from cairn_test.hosts import Net
from cairn_test.mpi import compiled

LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "mpi", "cairn-ssh")
SERVER = """
Port 22
ListenAddress 0.0.0.0
HostKey {folder}/hostkey
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PrintMotd no
PrintLastLog no
SetEnv {environment}
"""
CLIENT = """
Host *
  Port {port}
  IdentityFile {folder}/key
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  BatchMode yes
  LogLevel ERROR
"""


class Job:
    def __init__(self, t, net, kind):
        self.t, self.net = t, net
        self.program, self.starter = compiled(t, kind)
        if self.program is None:
            raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
        if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
            raise Skip("sshd or ssh isn't installed")
        self.kind = kind
        self.finish = os.path.join(t.work, "finish")  # however fast it is, it is there in the last round
        self.port = 2222
        folder = t.folder
        for name in "hostkey", "key":
            code, out, err = t.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(folder, name)])
            check(code == 0, f"ssh-keygen: {out}{err}")
            if net.user:
                os.chown(os.path.join(folder, name), net.user.pw_uid, net.user.pw_gid)
        self.client = os.path.join(folder, "client")
        with open(self.client, "w") as file:
            file.write(CLIENT.format(port=self.port, folder=folder))
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for host in net.hosts:
            names = ("CAIRN_RUNDIR", "CAIRN_HOST", "CAIRN_CKPTDIR", "CAIRN_HOST_TIMEOUT")
            environment = " ".join(f"{name}={host.env[name]}" for name in names if name in host.env)
            config = os.path.join(host.folder, "sshd")
            with open(config, "w") as file:
                file.write(SERVER.format(folder=folder, environment=environment).replace("Port 22", f"Port {self.port}"))
            host.sshd = host.spawn("/usr/sbin/sshd", "-D", "-f", config, "-E", config + ".log", name="sshd.out")
        for host in net.hosts:
            t.wait_until(lambda: net.root.run("ssh", "-F", self.client, host.address, "true")[0] == 0, f"sshd on {host.name}")
        self.join = f"--coordinator {net.root.address}:{net.port} --key {net.root.key}"

    def words(self, steps):
        hosts = ",".join(f"{host.address}:{4 // len(self.net.hosts)}" for host in self.net.hosts)
        if self.kind == "mpich":
            return [self.starter, "-launcher", "ssh", "-launcher-exec", LAUNCHER, "-iface", "eth0", "-hosts", hosts, "-n", "4",
                    "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0", "-genv", "MPIR_CVAR_NOLOCAL", "1",
                    "-genv", "STENCIL_LEAVE_OPEN", "1", self.program, str(steps)]
        network = f"{self.net.root.address.rsplit('.', 1)[0]}.0/24"
        return [self.starter, "--oversubscribe", *([] if self.net.user else ["--allow-run-as-root"]), "-H", hosts, "-n", "4",
                "--mca", "plm_rsh_agent", LAUNCHER, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", network,
                "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network,
                "--mca", "btl_tcp_disable_family", "6", self.program, str(steps)]

    def environment(self, **more):
        return dict(self.net.root.env, CAIRN_SSH=f"ssh -F {self.client}", CAIRN=self.t.cairn, STENCIL_FINISH=self.finish, **more)

    def output(self, name):
        return [line for line in self.net.root.said(name, last=1000000).splitlines() if line.startswith(("step ", "rank ", "WRONG"))]

    def undisturbed(self, steps):
        began = time.monotonic()
        pid = self.net.root.spawn(*self.words(steps), env=self.environment(), name="undisturbed",
                                  errors="undisturbed.err")
        self.t.wait_until(lambda: processes.status_of(pid) is not None, "the undisturbed job to end", 120)
        said = self.output("undisturbed")
        check(len([line for line in said if line.startswith("rank ")]) == 4,
              f"the undisturbed job: {said} {self.net.root.said('undisturbed.err')}")
        return said, time.monotonic() - began


def test(t):
    user = "user" in t.arguments.names
    kind = "openmpi" if "openmpi" in t.arguments.names else "mpich"
    count = 4 if "four" in t.arguments.names else 2
    with Net(t, count, user=user) as net:
        a = net.root
        job = Job(t, net, kind)
        steps = 3000 if t.soak else 1000
        with open(job.finish, "w"):
            pass
        expected, taken = job.undisturbed(steps)
        os.unlink(job.finish)
        t.say(f"{steps} steps, undisturbed: {taken:.1f} s")
        net.start_root()
        # Apart: when the job is killed mpiexec may be the last to go, and complain, and what is written after a checkpoint stays.
        running = a.spawn(t.cairn, "launch", "--", *job.words(steps), env=job.environment(CAIRN_JOIN=job.join), name="job",
                          errors="job.err")
        home = a  # where mpiexec is
        for number in range(t.rounds):
            begun = len(job.output("job"))
            t.wait_until(lambda: len(job.output("job")) > begun + 3 or job.output("job")[-1:] == expected[-1:] or
                         processes.status_of(running) is not None, f"the job to go on in round {number + 1}", 60)
            check(processes.status_of(running) is None, f"the job ended: {a.said('job')}{a.said('job.err')}")
            t.sleep(0.1 * t.random.random())
            done = net.checkpoint()
            check(done["hosts"] == count, f"checkpoint: {done}")
            t.say(f"round {number + 1}: {done['processes']} processes, pause {done['pause_ns'] / 1e6:.1f} ms, durable after "
                  f"{done['total_ns'] / 1e6:.0f} ms; {'; '.join(done.get('notes', []))}")
            net.kill_programs()
            where = {host: host.name for host in net.hosts}
            if number % 3 == 1:
                where = {host: net.hosts[n - 1].name for n, host in enumerate(net.hosts)}
            # Each host has written its own part, whoever's that was before.
            home = next(host for host in where if where[host] == home.name)
            if number % 3 == 2:
                for host in net.hosts:
                    os.kill(host.coordinator_pid(), 9)
                t.sleep(0.2)
                for n in range(0, count, 2):
                    net.swap_addresses(net.hosts[n], net.hosts[n + 1])
                net.start_root()
            began = time.monotonic()
            # An ordinary user may have to wait for a port of both ends that closed at once: a minute.
            tools = net.restart(where, timeout=130 if user else 60)
            running = next(pid for host, pid in tools if host is home)
            t.say(f"restarted after {time.monotonic() - began:.2f} s")
        with open(job.finish, "w"):
            pass
        t.wait_until(lambda: processes.status_of(running) is not None, "the job to end", 120)
        said = job.output("job")
        check(said == expected, "undisturbed and this time:\n" + "\n".join(difflib.unified_diff(expected, said, lineterm="")) +
              "".join(f"\nits host {host.name}: {host.said('restart')}" for host in net.hosts))
        code = os.waitstatus_to_exitcode(processes.status_of(running))
        check(code == 0, f"the job's exit status is {code}")
