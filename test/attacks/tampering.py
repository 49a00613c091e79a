"""Somebody on the path between two hosts changes what a restart puts back into the receive queues of the programs' connection, a byte
of each packet: the restart ends and says so. Where he only hands on, it goes well."""
import ctypes
import os
import random
import socket
import struct
import sys
import threading
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "hosts")]
from cairn_test import Failure, check, processes
from cairn_test.hosts import Net, run

# Each sends, and reads nothing until it is told to: at the checkpoint all of it is in the other's receive queue.
QUEUED = r"""
import fcntl, os, random, socket, struct, sys, termios, time
role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
other = "client" if role == "server" else "server"
if role == "server":
    listener = socket.create_server((address, port))
    connection, _ = listener.accept()
else:
    while True:
        try:
            connection = socket.create_connection((address, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
SIZE = int(sys.argv[4])
def report(text):
    with open(role + ".new", "w") as file:
        file.write(text)
    os.rename(role + ".new", role)
for number in range(100):
    connection.sendall(random.Random(f"{role} {number}").randbytes(SIZE))
    while struct.unpack("i", fcntl.ioctl(connection, termios.FIONREAD, b"1234"))[0] < SIZE:
        time.sleep(0.01)
    report(str(number))
    while not os.path.exists(f"read.{number}"):
        time.sleep(0.01)
    got = b""
    while len(got) < SIZE:
        got += connection.recv(SIZE - len(got)) or sys.exit("the connection has ended")
    if got != random.Random(f"{other} {number}").randbytes(SIZE):
        report("wrong bytes")
        sys.exit(1)
"""
PORT, SIZE = 5000, 20000
ETH_IP = 0x0800


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Between:
    """Host b's cable, cut in two: what comes out of one end is put into the other by us, with the checksums that a network card
    would have written."""

    def __init__(self, net, host):
        self.tampers, self.known, self.passed, self.changed, self.over = False, b"", 0, 0, False
        ns = net.bridge
        # No packet larger than the cable takes: there is no card that would cut it into pieces.
        for each in net.hosts:
            run(f"ip -n {each.netns} link set eth0 gso_max_segs 1")
        run(f"ip -n {ns} link set v{host.name} nomaster && ip -n {ns} link add in0 type veth peer name in1 && "
            f"ip -n {ns} link set in0 master br0 up && ip -n {ns} link set in1 up")
        self.ready = threading.Event()
        self.ends = [f"v{host.name}", "in1"]
        self.thread = threading.Thread(target=self.go, args=(ns,), daemon=True)
        self.thread.start()
        check(self.ready.wait(20), "nobody stands on the path")

    def go(self, ns):
        fd = os.open(f"/run/netns/{ns}", os.O_RDONLY)
        check(ctypes.CDLL(None).setns(fd, 0) == 0, "setns")  # this thread only
        os.close(fd)
        import selectors
        found, sockets = selectors.DefaultSelector(), []
        for name in self.ends:
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            one.bind((name, 0))
            one.setblocking(False)
            sockets.append(one)
            found.register(one, selectors.EVENT_READ, len(sockets) - 1)
        self.ready.set()
        while not self.over:
            for key, _ in found.select(0.2):
                for _ in range(64):
                    try:
                        frame, where = sockets[key.data].recvfrom(1 << 17)
                    except BlockingIOError:
                        break
                    if where[2] == socket.PACKET_OUTGOING:
                        continue
                    try:
                        sockets[1 - key.data].send(self.handed_on(frame))
                        self.passed += 1
                    except OSError:
                        pass  # as a full cable loses it: TCP sends it again

    def handed_on(self, frame):
        if len(frame) < 34 or struct.unpack("!H", frame[12:14])[0] != ETH_IP or frame[23] != socket.IPPROTO_TCP:
            return frame
        head = 14 + 4 * (frame[14] & 15)
        end = 14 + struct.unpack("!H", frame[16:18])[0]
        tcp = bytearray(frame[head:end])
        data = 4 * (tcp[12] >> 4)
        middle = (data + len(tcp)) // 2
        # What the programs have sent each other, in plain, whatever the ports are by now.
        if self.tampers and len(tcp) > data + 32 and bytes(tcp[middle:middle + 16]) in self.known:
            tcp[middle] ^= 4
            self.changed += 1
        tcp[16:18] = b"\0\0"
        pseudo = frame[26:34] + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp))
        tcp[16:18] = struct.pack("!H", checksum(pseudo + bytes(tcp)))
        return frame[:head] + bytes(tcp) + frame[end:]

    def stop(self):
        self.over = True
        self.thread.join()


def restart_fails(t, net, between):
    a, b = net.hosts
    between.tampers, between.changed = True, 0
    tools = [(host, host.spawn(t.cairn, "restart", *net.join_options(host), "--host", host.name, net.folder_of(host.name, host),
                               name="tampered")) for host in (a, b)]
    try:
        t.wait_until(lambda: all(processes.status_of(pid) is not None for _, pid in tools), "the restart to end", 60)
    except Failure as failure:
        raise Failure(f"{failure}, {between.changed} packets changed: " + "; ".join(host.said("tampered") for host, _ in tools)) from None
    between.tampers = False
    said = "".join(host.said("tampered") for host, _ in tools)
    codes = [os.waitstatus_to_exitcode(processes.status_of(pid)) for _, pid in tools]
    check(between.changed > 0, "no packet was changed")
    check(4 in codes and 0 not in codes, f"the restart's parts ended with {codes}: {said}")
    check("is not what its part has sent: somebody in between has changed it" in said, f"it isn't said: {said}")
    t.say(f"{between.changed} packets changed: {[line for line in said.splitlines() if 'in between' in line][:1]}")
    t.wait_until(lambda: net.status().get("processes") == 0 and net.status().get("state") == "idle", "nobody to be left of it")


def wait_reports(t, wanted):
    def reports():
        found = []
        for role in "server", "client":
            path = os.path.join(t.work, role)
            found.append(open(path).read() if os.path.exists(path) else "")
        check("wrong bytes" not in found, f"the programs have read {found}")
        return found
    t.wait_until(lambda: reports() == [str(wanted)] * 2, f"both programs to have {wanted} in their queues")


def test(t):
    with Net(t, 2) as net:
        a, b = net.hosts
        net.start_root()
        between = Between(net, b)
        net.launch(a, "/usr/bin/python3", "-c", QUEUED, "server", a.address, str(PORT), str(SIZE))
        net.launch(b, "/usr/bin/python3", "-c", QUEUED, "client", a.address, str(PORT), str(SIZE))
        net.wait_processes(2)
        wait_reports(t, 0)
        tried = held = 0
        for number in range(t.rounds):
            net.checkpoint()
            net.kill_programs()
            between.known = b"".join(random.Random(f"{role} {number}").randbytes(SIZE) for role in ("server", "client"))
            restart_fails(t, net, between)
            tried, held = tried + between.changed, held + between.changed
            # The same checkpoint, handed on as it is.
            net.restart({a: "a", b: "b"})
            with open(os.path.join(t.work, f"read.{number}"), "w"):
                pass
            wait_reports(t, number + 1)
            t.say(f"round {number + 1}: {between.passed} packets were handed on")
        between.stop()
    print(f"attacks: {tried} tried, {held} held", flush=True)
