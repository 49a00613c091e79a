"""A TCP connection whose receiver has read much at a time, and now nothing: its queue has grown by itself beyond what
anybody may ask for. All of it is back after a restart, nobody's privilege needed."""
# ci: exact
import re
from cairn_test import check

PROGRAM = r"""
import hashlib, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
sender.setblocking(False)
receiver.setblocking(False)
block = bytes(range(256)) * 4096
number = 0
most = int(sys.argv[1]) << 20

def fill():
    # as much as goes, or the most: how much it was, and its sum
    global number
    total, digest, refused = 0, hashlib.blake2b(), 0
    while total < most:
        data = b"%015d\n" % number + block
        number += 1
        while data:
            try:
                sent = sender.send(data)
                refused = 0
            except BlockingIOError:
                refused += 1
                if refused == 20:
                    return total, digest.hexdigest()
                time.sleep(0.01)
                continue
            digest.update(data[:sent])
            total += sent
            data = data[sent:]
    return total, digest.hexdigest()

def drain(expected):
    total, digest = 0, hashlib.blake2b()
    while total < expected:
        try:
            data = receiver.recv(64 << 20)
        except BlockingIOError:
            continue
        digest.update(data)
        total += len(data)
    return digest.hexdigest()

# How fast the window grows is up to the kernel, which measures how fast we read.
for turn in range(60):
    total, digest = fill()
    if turn >= 8 and total > 8 << 20:
        break
    assert drain(total) == digest
print(f"READY {total}", flush=True)
for line in sys.stdin:
    print("GOOD" if drain(total) == digest else "BAD", flush=True)
    total, digest = fill()
    print(f"FULL {total}", flush=True)
"""


def test(t):
    # Of 32 MiB, the largest window as a rule (tcp_rmem). For an ordinary user what has not left the sender must find
    # room at the receiver's, too; with more he is refused.
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, "28" if t.mode in ("exact", "virtual") else "14"])
    total = int(re.search(rb"\d+", program.expect(r"READY \d+\r?\n").group(0))[0])
    check(total > 8 << 20, f"only {total} bytes wait: windows don't grow on this machine")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        t.say(f"{total} bytes waited")
        program.send("go on\n")
        program.expect("GOOD", timeout=60)
        total = int(re.search(rb"\d+", program.expect(r"FULL \d+\r?\n", timeout=60).group(0))[0])
