"""tcpdump, which reads a ring of packets (TPACKET_V3, with a filter): it prints each datagram, and goes on at the right place."""
# ci: exact
import shutil
import socket
from cairn_test import Skip


def test(t):
    if not shutil.which("tcpdump"):
        raise Skip("no tcpdump")
    # Nobody listens there; each datagram has a length of its own.
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    dump = t.launch(["tcpdump", "-l", "-n", "-i", "lo", "-Z", "root", f"udp dst port {port}"])
    dump.expect(r"listening on lo[^\n]*\n")
    length = 100

    def heard(count):
        nonlocal length
        for _ in range(count):
            length += 1
            sender.sendto(b"x" * length, ("127.0.0.1", port))
            dump.expect(rf"length {length}\r?\n")

    t.sleep(0.5)
    heard(5)
    for number in range(t.rounds):
        dump, _ = t.cycle(dump, number)
        heard(5)
    dump.send("\x03")
    dump.expect(r"packets captured")
    dump.expect_exit(0)
