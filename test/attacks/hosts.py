"""Another local user of the hosts of a computation, without its key: tries to get the key, the sockets and a place in the computation, and
calls every port that listens while the parts of a restart look for each other. Somebody on the path records what they say."""
import os
import socket
import threading
from cairn_test import check
from cairn_test.hosts import Net
from cairn_test.pair import PAIR, flow

# Calls whoever listens, and says what a caller of ours says, as far as it can be known.
KNOCK = r"""
import os, random, socket, sys, time
kept, calls, of_parts = [], 0, 0
while True:
    ports = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name) as file:
            ports |= {int(line.split()[1].split(":")[1], 16) for line in list(file)[1:] if line.split()[3] == "0A"}
    for port in ports - {5000}:
        try:
            one = socket.create_connection(("127.0.0.1" if port != 7779 else sys.argv[1], port), 1)
            one.setblocking(False)
            token = os.urandom(16).hex().encode()
            one.send(random.choice([b"GET / HTTP/1.0\r\n\r\n", token, token + b"CAIRNP2\n" + os.urandom(32), b"CAIRN-2\n" + os.urandom(32),
                                    os.urandom(random.randrange(1, 3000)), b" "]))
            kept.append(one)
            calls += 1
            of_parts += port != 7779
        except OSError:
            continue
    while len(kept) > 50:
        kept.pop(0).close()
    print(calls, of_parts, flush=True)
    time.sleep(0.001)
"""
CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"


class Recorder:
    """Everything that goes over the bridge."""

    def __init__(self, net):
        self.wire, self.over = bytearray(), False
        self.thread = threading.Thread(target=self.run, args=(net.bridge,), daemon=True)
        self.thread.start()

    def run(self, netns):
        import ctypes
        fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
        check(ctypes.CDLL(None).setns(fd, 0) == 0, "setns")  # this thread only
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        wire.settimeout(0.2)
        while not self.over:
            try:
                self.wire += wire.recv(1 << 16)
            except TimeoutError:
                continue

    def stop(self):
        self.over = True
        self.thread.join()
        return bytes(self.wire)


def test(t):
    tried = held = parts_called = 0
    with Net(t, 2) as net:
        a, b = net.hosts
        net.start_root()
        net.launch(a, "/usr/bin/python3", PAIR, "server", a.address, "5000", os.path.join(t.work, "server"))
        net.launch(b, "/usr/bin/python3", PAIR, "client", a.address, "5000", os.path.join(t.work, "client"))
        net.wait_processes(2)
        flow(t, "at first")
        # To be stopped by what is attacked, not by the folder that the test has around it.
        for path in t.folder, a.folder:
            os.chmod(path, 0o755)
        other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
        session = os.path.join(a.env["CAIRN_RUNDIR"], "default")
        wrong = dict(a.env, CAIRN_KEY="ab" * 32, CAIRN_RUNDIR="/tmp/cairn-attack-nowhere", HOME="/nonexistent")
        attacks = {"reads the key": (["cat", a.key], None),
                   "reads the region": (["cat", os.path.join(session, "region")], None),
                   "calls the socket": (["/usr/bin/python3", "-c", CONNECT, os.path.join(session, "socket")], None),
                   "asks for the status": ([t.cairn, "status"], None),
                   "ends the computation": ([t.cairn, "kill"], None),
                   "takes part with another key": ([t.cairn, "launch", "--coordinator", f"{a.address}:{net.port}", "--", "/bin/true"], wrong)}
        for what, (command, env) in attacks.items():
            code, out, err = a.run(*other, *command, env=env, timeout=60)
            tried += 1
            check(code != 0, f"another user {what}: {out}")
            held += 1
        check(net.status()["processes"] == 2, "the computation has lost or won somebody")
        number = 0
        while number < t.rounds or (parts_called == 0 and number < 20):
            net.checkpoint()
            net.kill_programs()
            knockers = [host.spawn(*other, "/usr/bin/python3", "-c", KNOCK, host.address, name=f"knock{number}") for host in (a, b)]
            recorder = Recorder(net)
            t.sleep(0.2)
            net.restart({a: "a", b: "b"})
            wire = recorder.stop()
            for pid in knockers:
                os.kill(pid, 9)
            counted = [(host.said(f"knock{number}").splitlines() or ["0 0"])[-1].split() for host in (a, b)]
            calls = sum(int(each[0]) for each in counted)
            parts_called += sum(int(each[1]) for each in counted)
            check(calls > 5, f"only {calls} calls were made")
            tried, held = tried + calls, held + calls
            flow(t, f"in round {number + 1}")
            # What coordinators and parts say; what the programs say to each other is theirs.
            check(len(wire) > 10_000 and b"CAIRNP2\n" in wire, f"{len(wire)} bytes were recorded, and no part's call")
            for words in b"restart-links", b"\"token\"", b"\"key\"", b"contents", b"urgent_inline", b"\"verb\"":
                tried += 1
                check(words not in wire, f"{words} can be read on the way")
                held += 1
            number += 1
            t.say(f"round {number}: {calls} calls ({parts_called} of parts until now) of another user, {len(wire)} bytes recorded")
    check(parts_called > 0, "nobody has called a part of a restart")
    print(f"attacks: {tried} tried, {held} held", flush=True)
