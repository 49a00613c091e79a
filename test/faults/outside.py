"""A connection to somebody outside the computation: refused on demand, else reset by a restart. A listening socket comes
back, or the restart says who has its port, or (--external=keep-listening) it gets another."""
# ci: exact user
import os
import socket
from cairn_test import check

SERVER = r"""
import os, socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open("up", "w").close()
def echo(connection):
    while data := connection.recv(100): connection.sendall(data)
while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""
CLIENT = r"""
import os, socket, sys, time
outside = ("127.0.0.1", int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
def fresh():
    connection = socket.create_connection(outside)
    connection.sendall(b"hello")
    assert connection.recv(100) == b"hello"
    return connection
connection = fresh()
connection.sendall(b"unread")
time.sleep(0.1)
print("READY", flush=True)
while not os.path.exists("finish"):
    if os.path.exists("look"):
        os.remove("look")
        assert connection.recv(100) == b"unread"
        try:
            print("RECEIVED", connection.recv(100), flush=True)
        except ConnectionResetError:
            print("RESET", flush=True)
        connection = fresh()
        connection.sendall(b"unread")
        inside = socket.create_connection(listener.getsockname())
        listener.accept()[0].close()
        assert inside.recv(1) == b""
        print("AT", listener.getsockname()[1], flush=True)
    time.sleep(0.02)
print("END", flush=True)
"""


def test(t):
    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as probe:
            return probe.getsockname()[1]

    def serve():
        up = os.path.join(t.work, "up")
        if os.path.exists(up):
            os.remove(up)
        t.launch(["/usr/bin/python3", "-c", SERVER, str(outside)], native=True, terminal="none")
        t.wait_until(lambda: os.path.exists(up), "the server outside to listen")

    def look(program):
        open(os.path.join(t.work, "look"), "w").close()
        program.expect(r"RESET\r?\n")
        return int(program.expect(r"AT (\d+)\r?\n")[1])

    outside, own = free_port(), free_port()
    serve()
    program = t.launch(["/usr/bin/python3", "-c", CLIENT, str(outside), str(own)])
    program.expect("READY")
    t.wait_members(1)

    code, out, err = t.command("checkpoint", "--external=refuse")
    check(code == 3 and f"connected to 127.0.0.1:{outside}" in err, f"refuse: {code}: {err}")
    code, out, err = t.command("checkpoint", "--external=nonsense")
    check(code == 2, f"a policy that there isn't: {code}: {err}")

    code, out, err = t.command("checkpoint")
    check(code == 0 and "a restart resets it" in out + err, f"checkpoint: {code}: {out}{err}")
    t.pull_the_plug()
    serve()
    with socket.create_server(("127.0.0.1", own)):
        program = t.restart(wait=False)
        code = os.waitstatus_to_exitcode(program.exit_status())
        text = t.text_of(program)
        check(code == 3 and f"127.0.0.1:{own} is taken by {os.getpid()} (" in text, f"port taken: {code}: {text}")
        t.programs.remove(program)
    program = t.restart()
    check(look(program) == own, "the listening socket has another port")

    t.must("checkpoint", "--external=keep-listening")
    t.pull_the_plug()
    serve()
    with socket.create_server(("127.0.0.1", own)):
        program = t.restart()
        check(f"127.0.0.1:{own} is taken" in t.text_of(program), "nothing is said of the port that was taken")
        check(look(program) != own, "two sockets listen at one port")
    open(os.path.join(t.work, "finish"), "w").close()
    program.expect("END")
    program.expect_exit(0)
