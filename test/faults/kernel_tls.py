"""A connection to somebody outside on which the kernel encrypts (kernel TLS): a restart resets it, as any other to the
outside. Between two members it is refused by name."""
# ci: exact user
import os
import socket

from cairn_test import Skip, check

TCP_ULP = 31

# TLS 1.2 with AES-128-GCM (struct tls12_crypto_info_aes_gcm_128), one key for both ways.
KEYS = r"""
import os, socket, struct, sys
def by_the_kernel(connection):
    keys = struct.pack("=HH8s16s4s8s", 0x0303, 51, b"i" * 8, b"k" * 16, b"salt", bytes(8))
    connection.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
    for way in (1, 2):
        connection.setsockopt(282, way, keys)
"""
SERVER = KEYS + r"""
import threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open("up", "w").close()
def echo(connection):
    by_the_kernel(connection)
    while data := connection.recv(100): connection.sendall(data)
while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""
CLIENT = KEYS + r"""
import time
def fresh():
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    by_the_kernel(connection)
    connection.sendall(b"secret")
    assert connection.recv(100) == b"secret"
    connection.sendall(b"unread")
    time.sleep(0.1)
    return connection
connection = fresh()
print("READY", flush=True)
while not os.path.exists("finish"):
    if os.path.exists("look"):
        os.remove("look")
        try:
            print("RECEIVED", connection.recv(100), flush=True)
        except ConnectionResetError:
            print("RESET", flush=True)
            connection = fresh()
        except OSError as error:
            print("ERROR", error, flush=True)
    time.sleep(0.02)
print("END", flush=True)
"""


BOTH_ENDS = r"""
listener = socket.create_server(("127.0.0.1", 0))
caller = socket.create_connection(listener.getsockname())
called = listener.accept()[0]
by_the_kernel(caller)
print("READY", flush=True)
sys.stdin.read()
"""


def has_kernel_tls():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as caller:
        try:
            caller.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            return True
        except OSError:
            return False


def test(t):
    if not has_kernel_tls():
        raise Skip("no kernel TLS")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def serve():
        up = os.path.join(t.work, "up")
        if os.path.exists(up):
            os.remove(up)
        t.launch(["/usr/bin/python3", "-c", SERVER, str(port)], native=True, terminal="none")
        t.wait_until(lambda: os.path.exists(up), "the server outside to listen")

    def look(program):
        open(os.path.join(t.work, "look"), "w").close()
        return program.expect(r"(RESET|RECEIVED|ERROR)([^\r\n]*)\r?\n")[1].decode()

    serve()
    program = t.launch(["/usr/bin/python3", "-c", CLIENT, str(port)])
    program.expect("READY")
    t.wait_members(1)
    for _ in range(3):
        code, out, err = t.command("checkpoint")
        check(code == 0 and "a restart resets it" in out + err, f"checkpoint: {code}: {out}{err}")
        check(look(program) == "RECEIVED", "the checkpoint has taken what waited, or harmed the connection")
        t.must("checkpoint")
        t.pull_the_plug()
        serve()
        program = t.restart()
        check(look(program) == "RESET", "the connection wasn't reset")
    open(os.path.join(t.work, "finish"), "w").close()
    program.expect("END")
    program.expect_exit(0)

    inside = t.launch(["/usr/bin/python3", "-c", KEYS + BOTH_ENDS])
    inside.expect("READY")
    t.wait_members(1)
    code, out, err = t.command("checkpoint")
    check(code == 3 and "is a TCP socket with the kernel's tls on it, connected to" in err, f"two members: {code}: {out}{err}")
