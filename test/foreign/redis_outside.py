"""redis-server inside, redis-benchmark and a client outside: they are reset by a restart and connect again, and the server has what
it had at the checkpoint."""
# ci: exact
import os
import shutil
import socket
from cairn_test import Skip, check

LOAD = r"""
good=0 broken=0
until [ -e stop ]; do
    if redis-benchmark -p $PORT -t set,get,lpush -n 3000 -c 20 -q > /dev/null 2>&1; then good=$((good + 1)); else broken=$((broken + 1)); sleep 0.1; fi
    echo "$good $broken" > load.new; mv load.new load
done
"""


class Client:
    def __init__(self, port):
        self.port, self.connection, self.resets, self.acknowledged, self.sent = port, None, 0, 0, 0

    def ask(self, words):
        """The answer, or None if the connection broke."""
        try:
            if self.connection is None:
                self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            self.connection.sendall(words.encode() + b"\r\n")
            answer = self.connection.recv(100)
            if answer.endswith(b"\r\n"):
                return answer[:-2].decode()
        except ConnectionError:
            pass
        if self.connection is not None:
            self.connection.close()
            self.resets += 1
        self.connection = None
        return None

    def count(self):
        answer = self.ask("INCR counter")
        if answer is not None:
            check(answer[0] == ":", f"redis says {answer}")
            return int(answer[1:])
        return None


def test(t):
    if not shutil.which("redis-benchmark") or not shutil.which("redis-server"):
        raise Skip("redis isn't installed")
    port = t.random.randrange(20000, 30000)
    t.launch(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], terminal="none")
    client = Client(port)
    t.wait_until(lambda: client.ask("PING") == "+PONG", "the server to answer")

    def load():
        try:
            with open(os.path.join(t.work, "load")) as file:
                return [int(each) for each in file.read().split()]
        except OSError:
            return [0, 0]

    def start_load():
        t.launch(["bash", "-c", LOAD], terminal="none", native=True, env={"PORT": str(port)})

    def wait_load():
        before = load()[0]
        t.wait_until(lambda: load()[0] > before, "a benchmark outside to come to its end", 60)

    last = 0
    for number in range(t.rounds):
        start_load()
        wait_load()
        for _ in range(200):
            last = client.count()
        before = last
        t.checkpoint()
        for _ in range(100):
            last = client.count()
        check(last == before + 100, f"a checkpoint changed the counter: {before}, and after 100 more {last}")
        t.pull_the_plug(number % 2 == 1)
        t.restart(terminal="none")
        t.say(f"restart {number + 1}")
        resets = client.resets
        check(client.count() is None and client.resets == resets + 1, "the connection of before has survived the kill")
        last = client.count()
        check(last == before + 1, f"the counter was {before} at the checkpoint, the next is {last}")
    start_load()
    wait_load()
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    check(client.ask("SHUTDOWN NOSAVE") is None, "the server has not ended")
