"""Hosts made of network namespaces: one bridge, an address and a coordinator of its own for each. Root only."""

import json
import os
import subprocess

from . import modes, processes
from .session import Failure


def run(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{command}: {done.stderr.strip()}")
    return done.stdout


def states(t, roles):
    """What programs write into files of the working folder, a line of JSON over the one before: {role: ...}."""
    found = {}
    for role in roles:
        path = os.path.join(t.work, role)
        try:
            found[role] = json.load(open(path))
        except (OSError, ValueError):  # not there yet, or being written
            t.sleep(0.01)
            found[role] = json.load(open(path)) if os.path.exists(path) and os.path.getsize(path) else {}
        if found[role].get("bad"):
            raise Failure(f"{role}: {found[role]['bad']}")
    return found


def order(t, *words):
    """What the programs read that wait for orders."""
    with open(os.path.join(t.work, "order.new"), "w") as file:
        file.write(" ".join(map(str, words)))
    os.rename(os.path.join(t.work, "order.new"), os.path.join(t.work, "order"))


class Host:
    def __init__(self, net, number, shared):
        self.net, self.t, self.number, self.user = net, net.t, number, net.user
        self.name = "abcdefghijklmnop"[number]
        self.netns = f"cairn{os.getpid()}{self.name}"
        self.address, self.address6 = f"10.91.0.{number + 1}", f"fd91::{number + 1:x}"
        self.folder = os.path.join(self.t.folder, "host-" + self.name)
        self.ckptdir = os.path.join(self.t.folder, "shared") if shared else os.path.join(self.folder, "ckpt")
        os.makedirs(self.folder, exist_ok=True)
        os.makedirs(self.ckptdir, exist_ok=True)
        self.env = dict(self.t.env, CAIRN_RUNDIR=os.path.join(self.folder, "run"), CAIRN_HOST=self.name,
                        CAIRN_CKPTDIR=self.ckptdir)
        self.key = os.path.join(self.folder, "run", "default", "key")
        if self.user:
            for path in self.folder, self.ckptdir:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def command(self, *argv):
        become = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--init-groups", "--inh-caps=-all",
                  "--bounding-set=-all"] if self.user else []
        return ["nsenter", f"--net=/run/netns/{self.netns}", *become, *map(str, argv)]

    def run(self, *argv, timeout=60, env=None):
        return self.t.run(self.command(*argv), timeout=timeout, env=env or self.env)

    def cairn(self, *argv, timeout=60, env=None):
        return self.run(self.t.cairn, *argv, timeout=timeout, env=env)

    def must(self, *argv, timeout=60):
        code, out, err = self.cairn(*argv, timeout=timeout)
        if code != 0:
            raise Failure(f"host {self.name}: cairn {' '.join(map(str, argv))} ended with {code}: {err or out}")
        return out

    def spawn(self, *argv, name="out", errors=None, env=None):
        """Its output goes into the file `name` of the host's folder, and what it says of errors, too, or into `errors`."""
        paths = [os.path.join(self.folder, each) for each in (name, errors or name)]
        for path in paths:
            if self.user:  # a restart opens it as it was
                with open(path, "a"):
                    os.chown(path, self.user.pw_uid, self.user.pw_gid)
        return processes.spawn(self.command(*argv), env=env or self.env, cwd=self.t.work, stdin="/dev/null", stdout=paths[0],
                               stderr=paths[1], new_session=True)

    def said(self, name="out", last=2000):
        path = os.path.join(self.folder, name)
        return open(path, errors="replace").read()[-last:] if os.path.exists(path) else ""

    def coordinator_pid(self):
        try:
            return int(open(os.path.join(self.folder, "run", "default", "coordinator.pid")).read())
        except (OSError, ValueError):
            return None

    def log(self):
        path = os.path.join(self.folder, "run", "default", "coordinator.log")
        return open(path, errors="replace").read()[-3000:] if os.path.exists(path) else ""


class Net:
    """`with Net(t, 2) as net:` net.hosts[0] is the root's. user: whoever runs programs there is an ordinary user. six: with
    IPv6 addresses as well."""

    def __init__(self, t, count, shared=False, user=False, six=False):
        self.t, self.bridge, self.six, self.moves = t, f"cbr{os.getpid()}", six, 0
        self.user = modes.ordinary_user() if user else None
        if user:
            os.chmod(t.folder, 0o755)
            os.chown(t.work, self.user.pw_uid, self.user.pw_gid)
        self.hosts = [Host(self, number, shared) for number in range(count)]
        self.root = self.hosts[0]
        self.port = 7779

    def __enter__(self):
        # The bridge is in a namespace of its own: nothing of this is seen from outside.
        run(f"ip netns add {self.bridge}; ip -n {self.bridge} link add br0 type bridge; ip -n {self.bridge} link set br0 up")
        for host in self.hosts:
            run(f"ip netns add {host.netns} && ip link add v{host.name} netns {self.bridge} type veth "
                f"peer name eth0 netns {host.netns} && ip -n {self.bridge} link set v{host.name} master br0 up && "
                f"ip -n {host.netns} link set eth0 up && "
                f"ip -n {host.netns} link set lo up")
            self.give_addresses(host)
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            pid = host.coordinator_pid()
            for victim in self.members(host) + ([pid] if pid else []):
                try:
                    os.kill(victim, 9)
                except ProcessLookupError:
                    pass
        self.t.sleep(0.1)
        for name in [host.netns for host in self.hosts] + [self.bridge]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def cut(self, host, cut=True):
        run(f"ip -n {self.bridge} link set v{host.name} {'down' if cut else 'up'}")

    def slow(self, host, milliseconds):
        """False if this kernel has no netem."""
        return subprocess.run(["ip", "netns", "exec", self.bridge, "tc", "qdisc", "replace", "dev", f"v{host.name}", "root",
                               "netem", "delay", f"{milliseconds}ms"], capture_output=True).returncode == 0

    def give_addresses(self, host):
        run(f"ip -n {host.netns} addr add {host.address}/24 dev eth0")
        if self.six:
            run(f"ip -n {host.netns} addr add {host.address6}/64 dev eth0 nodad")

    def take_addresses(self, host):
        run(f"ip -n {host.netns} addr flush dev eth0 scope global; ip -n {host.netns} neigh flush all")

    def swap_addresses(self, first, second):
        for host in first, second:
            self.take_addresses(host)
        first.address, second.address = second.address, first.address
        first.address6, second.address6 = second.address6, first.address6
        for host in first, second:
            self.give_addresses(host)

    def new_addresses(self):
        """Every host gets addresses that nobody ever had."""
        self.moves += 1
        for host in self.hosts:
            self.take_addresses(host)
            number = 50 * self.moves + host.number + 1
            host.address, host.address6 = f"10.91.0.{number}", f"fd91::{number:x}"
            self.give_addresses(host)

    def members(self, host):
        """Processes in the host's namespace."""
        done = subprocess.run(["ip", "netns", "pids", host.netns], capture_output=True, text=True)
        return [int(pid) for pid in done.stdout.split()]

    def start_root(self, *options):
        code, out, err = self.root.cairn("coordinator", "--listen", f":{self.port}", "--daemon", *options)
        if code != 0:
            raise Failure(f"the root coordinator: {code}: {err or out}")

    def join_options(self, host):
        return [] if host is self.root else ["--coordinator", f"{self.root.address}:{self.port}", "--key", self.root.key]

    def launch(self, host, *argv, name="out"):
        return host.spawn(self.t.cairn, "launch", *self.join_options(host), "--", *argv, name=name)

    def status(self):
        code, out, _ = self.root.cairn("status", "--json")
        return json.loads(out) if code == 0 else {}

    def wait_processes(self, count, timeout=20):
        self.t.wait_until(lambda: self.status().get("processes") == count, f"{count} processes in the computation", timeout)

    def checkpoint(self, *options, host=None):
        out = (host or self.root).must("checkpoint", "--json", *options)
        return json.loads(out)

    def kill_programs(self):
        """As if the power had gone, but for the coordinators."""
        keep = {host.coordinator_pid() for host in self.hosts}
        for host in self.hosts:
            for pid in self.members(host):
                if pid not in keep:
                    try:
                        os.kill(pid, 9)
                    except ProcessLookupError:
                        pass
        keep_pids = keep
        self.t.wait_until(lambda: not any(pid not in keep_pids for host in self.hosts for pid in self.members(host)),
                          "the programs to be gone")
        self.t.wait_until(lambda: self.status().get("state") == "idle", "the computation to have ended")

    def restart(self, where, *options, timeout=60):
        """`where`: host -> name of the host whose part it restarts. They wait for each other."""
        tools = []
        for host, part in where.items():
            # A host that hasn't written the part has been sent a copy.
            tools.append((host, host.spawn(self.t.cairn, "restart", *self.join_options(host), "--host", part, *options,
                                           self.folder_of(part, host), name="restart")))
        self.t.wait_until(lambda: self.status().get("state") == "running" or self.failed(tools), "the restart", timeout)
        if self.failed(tools):
            raise Failure("a restart ended: " + "; ".join(f"{host.name}: {host.said('restart')}" for host, _ in tools))
        return tools

    def again(self, number):
        """Everybody is killed and restarted: as it was, with each part on the next host, with addresses that nobody ever had."""
        self.kill_programs()
        shift = 1 if number % 3 == 1 else 0
        if number % 3 == 2:
            for host in self.hosts:
                if pid := host.coordinator_pid():
                    os.kill(pid, 9)
            self.t.sleep(0.2)
            self.new_addresses()
            self.start_root()
        live = [host for host in self.hosts if os.path.exists(os.path.join(self.folder_of(host.name, host), "manifest.json"))]
        return self.restart({host: live[(i + shift) % len(live)].name for i, host in enumerate(live)})

    @staticmethod
    def failed(tools):
        return any(processes.status_of(pid) is not None for _, pid in tools)

    def folder_of(self, part, host):
        owner = next(each for each in self.hosts if each.name == part)
        return os.path.join(owner.ckptdir, "latest")
