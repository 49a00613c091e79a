"""A server that accepts late and a client whose connections wait for it: backlog_pair.py server|client ADDRESS PORT OUT ORDER.
ORDER's text is a round's number, then "accept": what was opened in the round is accepted and checked. OUT gets a line of JSON.
Three ports: connections that say nothing before they are accepted; a queue that is full, so that most are still connecting; one
that is accepted slowly, by clients that send at once."""
import json
import os
import socket
import sys
import threading
import time

QUIET, FULL = 5, 3


def main():
    role, address, port, out, order = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    state = {"round": -1, "ready": False, "accepted": -1, "slow": 0, "bad": ""}

    told = os.open(out, os.O_RDWR | os.O_CREAT, 0o644)

    def report():  # the file stays the same one, of the same size: a restart finds it
        os.pwrite(told, (json.dumps(state)[:1000].ljust(1000) + "\n").encode(), 0)

    def ordered():
        try:
            words = open(order).read().split()
        except OSError:
            return -1, False
        return (int(words[0]), words[1:] == ["accept"]) if words else (-1, False)

    def guarded(function):
        try:
            function()
        except Exception as problem:
            state["bad"] = f"{function.__name__}: {problem!r}"
        report()

    def exactly(connection, size):
        got = b""
        while len(got) < size:
            part = connection.recv(size - len(got))
            if not part:
                raise EOFError(f"after {len(got)} bytes of {size}")
            got += part
        return got

    def line(connection):
        got = b""
        while not got.endswith(b"\n"):
            part = connection.recv(1)
            if not part:
                raise EOFError(f"after {got}")
            got += part
        return got.decode()

    def listening(number, backlog):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port + number))
        listener.listen(backlog)
        return listener

    def server():
        quiet, full, slow = listening(0, 64), listening(1, 0), listening(2, 64)

        def accept_slowly():
            while True:
                time.sleep(0.02)
                connection, _ = slow.accept()
                connection.sendall(exactly(connection, 8192))
                connection.close()
                state["slow"] += 1

        threading.Thread(target=guarded, args=(accept_slowly,), daemon=True).start()
        while True:
            number, accept = ordered()
            if accept and number != state["accepted"]:
                for listener, count in (quiet, QUIET), (full, FULL):
                    for _ in range(count):
                        connection, name = listener.accept()
                        connection.settimeout(60)
                        said = json.loads(line(connection))
                        if said["round"] != number:
                            raise ValueError(f"a connection of round {said['round']} in round {number}")
                        # Who is called what is the same to both.
                        for what, own, theirs in (("peer", name, said["own"]), ("getpeername", connection.getpeername(), said["own"]),
                                                  ("own", connection.getsockname(), said["peer"])):
                            if list(own[:2]) != theirs[:2]:
                                raise ValueError(f"{what}: {own}, the client says {theirs}")
                        connection.sendall(f"welcome {said['token']}\n".encode())
                        exactly(connection, 3)
                        connection.close()
                state["accepted"] = number
            state["ready"] = True
            report()
            time.sleep(0.05)

    def client():
        def send_at_once():
            number = 0
            while True:
                connection = socket.socket(family)
                while connection.connect_ex((address, port + 2)) != 0:
                    connection.close()
                    time.sleep(0.02)
                    connection = socket.socket(family)
                block = bytes([number % 256]) * 8192
                connection.sendall(block)
                if exactly(connection, 8192) != block:
                    raise ValueError("another echo")
                connection.close()
                number += 1
                state["slow"] = number
                time.sleep(0.05)

        threading.Thread(target=guarded, args=(send_at_once,), daemon=True).start()
        connections = []
        while True:
            number, accept = ordered()
            if number > state["round"]:
                connections = []
                for i in range(QUIET):
                    connection = socket.socket(family)
                    while connection.connect_ex((address, port)) != 0:
                        time.sleep(0.05)
                    connections.append((connection, connection.getsockname()))
                for i in range(FULL):
                    connection = socket.socket(family)
                    connection.setblocking(False)
                    connection.connect_ex((address, port + 1))
                    connections.append((connection, connection.getsockname()))
                time.sleep(0.1)
                state["round"] = number
            if accept and number != state["accepted"]:
                def talk(at):
                    connection, own = connections[at]
                    connection.setblocking(True)
                    connection.settimeout(60)
                    limit = time.monotonic() + 60
                    while True:  # those that were being connected
                        try:
                            peer = connection.getpeername()
                            break
                        except OSError:
                            if time.monotonic() > limit:
                                raise
                            time.sleep(0.02)
                    if peer[:2] != (address, port + (at >= QUIET)):
                        raise ValueError(f"the peer is {peer}")
                    if connection.getsockname()[:2] != own[:2]:
                        raise ValueError(f"was {own}, is {connection.getsockname()}")
                    token = f"{number}-{at}"
                    said = {"round": number, "token": token, "own": own, "peer": peer}
                    connection.sendall((json.dumps(said) + "\n").encode())
                    if line(connection) != f"welcome {token}\n":
                        raise ValueError("somebody else's welcome")
                    connection.sendall(b"bye")
                    connection.close()

                problems = []

                def careful(at):
                    try:
                        talk(at)
                    except Exception as problem:
                        problems.append(f"connection {at} of round {number}: {problem!r}")

                threads = [threading.Thread(target=careful, args=(at,)) for at in range(len(connections))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                if problems:
                    raise ValueError("; ".join(problems))
                state["accepted"] = number
            state["ready"] = True
            report()
            time.sleep(0.05)

    guarded(server if role == "server" else client)


main()
