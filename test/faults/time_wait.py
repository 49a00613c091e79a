"""A server that hasn't set SO_REUSEADDR and has closed a connection: the kernel keeps its port for a minute after the kill
(TIME_WAIT). The restart doesn't wait for that: root ends such connections, other users call as their dead other end. That the
server listens over IPv6 at the same port, by another socket, is no reason to take the port for somebody else's.

And a connection that nobody has accepted at the checkpoint, but soon after, and that has ended before the kill: its caller's
end is in TIME_WAIT when it is to be made again."""
# ci: exact user
import os
from cairn_test import check

SERVER = r"""
import os, socket, time
def listen():
    six, server = socket.socket(socket.AF_INET6), socket.socket()  # opened again in this order
    server.bind(("127.0.0.1", 0))
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        six.bind(("::1", server.getsockname()[1]))
    except OSError:
        return listen()
    six.listen()
    server.listen()
    return six, server
six, server = listen()
def ask():
    client = socket.create_connection(server.getsockname())
    mine, _ = server.accept()
    mine.close()  # first: this end is the one that waits
    assert client.recv(1) == b""
    client.close()
ask()
def call():
    early = socket.create_connection(server.getsockname())
    return early, early.getsockname()
def greet():
    mine, name = server.accept()
    assert name == early.getsockname() == early_name, (name, early.getsockname(), early_name)
    early.close()  # first
    mine.close()
early, early_name = call()
print("PORT", server.getsockname()[1], flush=True)
for number in range(1000):
    while not os.path.exists(f"greet{number}"):
        time.sleep(0.02)
    greet()
    print("GREETED", number, flush=True)
    while not os.path.exists(f"ask{number}"):
        time.sleep(0.02)
    ask()
    early, early_name = call()
    print("ASKED", number, server.getsockname()[1], flush=True)
"""


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", SERVER])
    port = int(program.expect(r"PORT (\d+)\r?\n")[1])
    for number in range(t.rounds):
        with open("/proc/net/tcp") as file:
            waiting = [line for line in file if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "06"]
        check(waiting, f"no connection of port {port} is in TIME_WAIT")
        t.checkpoint()
        greet = os.path.join(t.work, f"greet{number}")
        with open(greet, "w"):
            pass
        program.expect(rf"GREETED {number}\r?\n")
        t.pull_the_plug()
        program = t.restart(name=f"restart {number + 1}")
        with open(program.errors) as file:
            said = file.read()
        check("waited for port" not in said and "can't" not in said, said)
        program.expect(rf"GREETED {number}\r?\n")
        with open(os.path.join(t.work, f"ask{number}"), "w"):
            pass
        program.expect(rf"ASKED {number} {port}\r?\n")
