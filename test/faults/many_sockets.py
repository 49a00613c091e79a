"""As many sockets as the hard limit of descriptors leaves room for, in each of two processes: connections between the two, of a Unix
and of a TCP kind, and connections to a stranger, whose other ends a restart makes and closes. The capture and the restart have
the same limit, and fewer descriptors than there are sockets."""
# ci: exact
# timeout: 300
import subprocess
from cairn_test import check, processes

BETWEEN = r"""
import os, socket, sys
kind, count = sys.argv[1], int(sys.argv[2])
if kind == "tcp":
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    if os.fork() == 0:
        port = listener.getsockname()[1]
        listener.close()
        ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        other = ends[0]
    else:
        ends = [listener.accept()[0] for _ in range(count)]
        other = None
else:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        ends, other = [], theirs
        while len(ends) < count:
            ends.append(socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0]))
            theirs.send(b"k")
    else:
        theirs.close()
        ends, other = [], None
        while len(ends) < count:
            end, gone = socket.socketpair()
            ends.append(end)
            socket.send_fds(ours, [b"x"], [gone.fileno()])
            gone.close()
            ours.recv(1)
if other is not None:
    while True:
        for number, end in enumerate(ends):
            end.sendall(b"%d," % (int(end.recv(20)) + number))
print("READY", len(ends), max(end.fileno() for end in ends), flush=True)
for number, end in enumerate(ends):
    end.sendall(b"1")
for line in sys.stdin:
    wrong = 0
    for number, end in enumerate(ends):
        wrong += end.recv(20) != b"%d," % (1 + number)
        end.sendall(b"1")
    print("WRONG", wrong, flush=True)
"""

OUTSIDE = r"""
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
print("READY", len(ends), max(end.fileno() for end in ends), flush=True)
restarted = False
for line in sys.stdin:
    wrong = 0
    for end in ends:
        end.setblocking(False)
        try:
            wrong += end.recv(1) != b"" or not restarted
        except BlockingIOError:
            wrong += restarted
        except ConnectionResetError:
            wrong += not restarted
    restarted = True
    print("WRONG", wrong, flush=True)
"""


def look(program):
    program.send("look\n")
    program.expect(r"WRONG 0\r?\n", timeout=60)


STRANGER = r"""
import resource, signal, socket
signal.alarm(300)
resource.setrlimit(resource.RLIMIT_NOFILE, 2 * resource.getrlimit(resource.RLIMIT_NOFILE)[1:])
listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(listener.getsockname()[1], flush=True)
accepted = []
while True:
    accepted.append(listener.accept()[0])
"""


def test(t):
    limit = 4096 if t.soak else 1024
    processes.limit_descriptors(limit, limit)  # programs, coordinator, capture, restart

    count = limit - 16
    for kind in ("unix", "tcp"):
        program = t.launch(["/usr/bin/python3", "-c", BETWEEN, kind, str(count)])
        highest = int(program.expect(r"READY \d+ (\d+)\r?\n", timeout=60)[1])
        check(highest >= count, f"the highest descriptor is {highest}")
        for number in range(2):
            look(program)
            program, _ = t.cycle(program, number)
        look(program)
        t.pull_the_plug()
        t.say(f"{kind}: two processes with {count} sockets each under a limit of {limit}")

    stranger = subprocess.Popen(["/usr/bin/python3", "-c", STRANGER], stdout=subprocess.PIPE, text=True, start_new_session=True)
    port = int(stranger.stdout.readline())
    program = t.launch(["/usr/bin/python3", "-c", OUTSIDE, str(port), str(count)])
    program.expect(r"READY", timeout=60)
    look(program)
    code, out, err = t.command("checkpoint")
    check(code == 0, f"{code}: {err}")
    check(len(out.splitlines() + err.splitlines()) < 40, f"{len(err.splitlines())} lines of notes for {count} connections")
    t.pull_the_plug()
    program = t.restart()
    look(program)
    t.say(f"{count} connections to the outside under a limit of {limit}")
    stranger.kill()
    stranger.wait()
