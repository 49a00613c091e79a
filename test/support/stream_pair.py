"""Two programs that send each other streams and check every byte: stream_pair.py server ADDRESS PORT OUT, client ADDRESS PORT OUT.
OUT gets a line with what has been checked so far, ten times a second; the last word is "bad" when something was wrong."""
import random
import socket
import sys
import threading
import time

BLOCK = 8192


def main():
    role, address, port, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    report = open(out, "w")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if role == "server":
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
        connection, _ = listener.accept()
    else:
        connection = socket.socket(family)
        while connection.connect_ex((address, port)) != 0:
            connection.close()
            connection = socket.socket(family)
            time.sleep(0.05)
    names = connection.getsockname(), connection.getpeername()
    state = {"sent": 0, "checked": 0, "bad": ""}

    def send():
        source, pace = random.Random(role), random.Random(1)
        while True:
            connection.sendall(source.randbytes(BLOCK))
            state["sent"] += BLOCK
            if pace.random() < 0.01:
                time.sleep(0.01)

    def receive():
        source, pace = random.Random("client" if role == "server" else "server"), random.Random(2)
        while True:
            wanted, got = source.randbytes(BLOCK), b""
            while len(got) < BLOCK:
                part = connection.recv(BLOCK - len(got))
                if not part:
                    state["bad"] = f"the connection ended after {state['checked']} bytes"
                    return
                got += part
            if got != wanted:
                state["bad"] = f"wrong bytes after {state['checked']}"
                return
            state["checked"] += BLOCK
            if pace.random() < 0.05:  # so that buffers fill
                time.sleep(0.005)

    def guarded(function):
        try:
            function()
        except Exception as problem:
            state["bad"] = f"{function.__name__}: {problem!r}"

    for function in send, receive:
        threading.Thread(target=guarded, args=(function,), daemon=True).start()
    while True:
        now = connection.getsockname(), connection.getpeername()
        if now != names:
            state["bad"] = f"names were {names}, are {now}"
        report.seek(0)
        report.truncate()
        report.write(f"{state['sent']} {state['checked']} {'bad ' + state['bad'] if state['bad'] else 'fine'}\n")
        report.flush()
        time.sleep(0.1)


main()
