"""python3 workers that have a large table in common with their parents since a fork (a pre-forking server, a pool, a simulation's
ranks), two generations of them: after each restart they have it in common again, and the checkpoint has it once. shared_pages.py copied: where they can't, each has a copy."""
# ci: exact
# ci shared_pages:
# ci shared_pages_copied: copied
# timeout: 600
import os
from cairn_test import check, processes

PROGRAM = r"""
import hashlib, os, select, signal, socket, sys

def make_table(mib):
    table = bytearray(os.urandom(1 << 20)) * mib
    for at in range(0, len(table), 4096):
        table[at:at + 8] = at.to_bytes(8, "little")
    return table

def parts(table):
    return [hashlib.sha1(memoryview(table)[at:at + (1 << 22)]).hexdigest() for at in range(0, len(table), 1 << 22)]

class Worker:
    # Some pages are its own by now: written, and given back (zeros), and a mapping of its own.
    def __init__(self, number, table, whole):
        self.ask, theirs = socket.socketpair()
        self.reading, self.writing = os.pipe()
        self.pid = os.fork()
        if self.pid:
            theirs.close()
            os.close(self.writing)
            return
        self.ask.close()
        os.close(self.reading)
        if number % 3 == 2:
            os.setpgid(0, 0)
        self.serve(number, table, whole, theirs)

    def serve(self, number, table, whole, asked):
        more = [bytearray(2000) for _ in range(200)]  # the heap grows, and what it has in common stays so
        own = memoryview(table)[number * 8192:number * 8192 + 4096]
        own[:] = bytes([number % 250 + 1]) * 4096
        wanted = parts(table)
        poll = select.epoll()
        poll.register(asked, select.EPOLLIN)
        with open(f"log.{number}", "w", buffering=1) as log:
            while True:
                poll.poll()
                word = asked.recv(100)
                if not word:
                    os._exit(0)
                right = parts(table) == wanted if word == b"all" else bytes(own) == bytes([number % 250 + 1]) * 4096
                log.write(f"{word!r} {right}\n")
                os.write(self.writing, f"{number} {os.getpid()} {os.getppid()} {os.getsid(0)} {os.getpgrp()} {right}\n".encode())

def ask_all(workers, word):
    for worker in workers:
        worker.ask.send(word)
    return [os.read(worker.reading, 1000).decode() for worker in workers]

mib, count = int(sys.argv[1]), int(sys.argv[2])
heap = [bytearray(os.urandom(2000)) for _ in range(4000)]  # too small for a mapping of its own
table = make_table(mib)
whole = parts(table)
branch_asked, branch_answer = None, None
workers = [Worker(number, table, whole) for number in range(count)]
# One of them is a parent in turn: its children have its table, in which it has changed a part.
upper, lower = socket.socketpair()
middle = os.fork()
if middle == 0:
    upper.close()
    for worker in workers:
        worker.ask.close()
    table[1 << 20:2 << 20] = b"m" * (1 << 20)
    below = [Worker(count + number, table, parts(table)) for number in range(count)]
    while word := lower.recv(100):
        answers = ask_all(below, word)
        lower.send("".join(answers).encode())
    os._exit(0)
lower.close()
first = None
print("READY", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "end":
        break
    answers = ask_all(workers, word.encode())
    upper.send(word.encode())
    answers += upper.recv(100000).decode().splitlines(keepends=True)
    first = first or answers
    print("RIGHT" if answers == first and all("True" in each for each in answers) and parts(table) == whole else answers, flush=True)
upper.close()
for worker in workers:
    worker.ask.close()
print("ENDED", sorted(os.wait()[1] for _ in range(count + 1)), flush=True)
"""


def used(t):
    """Bytes of all processes' memory, each page of several counted once."""
    total = 0
    for member in t.members():
        with open(f"/proc/{member['real']}/smaps_rollup") as file:
            total += sum(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total


def states(t):
    found = [processes.stat(member["real"]) for member in t.members()]
    return [each[1] for each in found if each]


def stored(t):
    folder = os.path.realpath(t.latest())
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder))


def test(t):
    copied = "copied" in t.arguments.names
    if copied:
        os.environ["CAIRN_INHERIT"] = t.env["CAIRN_INHERIT"] = "never"
    mib, count = (1024, 32) if t.soak else (48, 5)
    with open(os.path.join(t.work, "program.py"), "w") as file:
        file.write(PROGRAM)
    program = t.launch(["/usr/bin/python3", "program.py", str(mib), str(count)])
    program.expect("READY", timeout=120)
    program.send("all\n")
    program.expect("RIGHT", timeout=300)
    for number in range(t.rounds):
        before = used(t)
        program, _ = t.cycle(program, number)
        # The group runs when the first is let go; the others have what the restart works with in their memory up to then.
        t.wait_until(lambda: "t" not in states(t), "the restart to let everybody go", 30)
        after, image = used(t), stored(t)
        t.say(f"{before >> 20} MiB before, {after >> 20} MiB after the restart, {image >> 20} MiB stored")
        check(copied or after <= before * 1.05, f"{after} bytes of memory after the restart, {before} before")
        check(image <= before * 1.1, f"{image} bytes stored of {before} that are used")
        program.send("own\n")
        program.expect("RIGHT", timeout=60)
        program.send("all\n")
        program.expect("RIGHT", timeout=300)
    program.send("end\n")
    program.expect(r"ENDED \[[0, ]*\]", timeout=60)
    program.expect_exit(0)
