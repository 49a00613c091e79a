"""Two programs without relation talk over a FIFO: what is in it comes back, once, whether they are restarted together
or each by a restart of its own."""
# ci: virtual userns
import os
from cairn_test import check

READER = r"""
import os, time
fifo = os.open("fifo", os.O_RDONLY)
open("reader.ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
data = b""
while piece := os.read(fifo, 100):
    data += piece
with open("new", "wb") as file:
    file.write(data)
os.rename("new", "received")
"""
WRITER = r"""
import os, time
fifo = os.open("fifo", os.O_WRONLY)
os.write(fifo, b"before, ")
open("writer.ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
os.write(fifo, b"after")
"""


def test(t):
    def path(name):
        return os.path.join(t.work, name)

    def there(*names):
        return all(os.path.exists(path(name)) for name in names)
    os.mkfifo(path("fifo"))
    t.launch(["/usr/bin/python3", "-c", READER], terminal="none")
    t.launch(["/usr/bin/python3", "-c", WRITER], terminal="none")
    t.wait_until(lambda: there("reader.ready", "writer.ready"), "both to have the FIFO open")
    for number in range(t.rounds):
        folder = t.checkpoint()
        t.pull_the_plug(number % 2 == 0)
        code, out, err = t.command("restart", "--list", folder)
        check(code == 0 and len([line for line in out.splitlines() if line.startswith("part")]) == 2,
              f"two parts were expected: {out}{err}")
        if number % 2 == 0:
            t.restart(terminal="none")
        else:
            parts = [t.restart("--part", part, terminal="none", wait=False, name=f"part {part}") for part in "12"]
            for part in parts:
                t.wait_restarted(part)
        t.sleep(0.1)
        check(not there("received"), "the reader has come to the FIFO's end")
        t.say(f"restart {number + 1}")
    with open(path("go"), "w"):
        pass
    t.wait_until(lambda: there("received"), "what the reader has received")
    with open(path("received")) as file:
        received = file.read()
    check(received == "before, after", f"received: {received!r}")
