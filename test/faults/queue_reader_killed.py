"""The capture is killed while it has a POSIX message queue's messages in its hands: not one is lost, and their order stays."""
# root: message queues of more than ten messages are for root
import ctypes
import os
import signal
import time
from cairn_test import Skip, check, processes
from cairn_test.events import Events
from cairn_test.serving import ask, expect

# Ends only with all messages, in their order, and puts them back.
PROGRAM = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
size, name = 16, sys.argv[3].encode()
class Attributes(ctypes.Structure):
    _fields_ = [(field, ctypes.c_long) for field in ("flags", "most", "size", "now", "a", "b", "c", "d")]
count = int(sys.argv[1])
attributes = Attributes(0, count, size)
queue = libc.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NONBLOCK, 0o600, ctypes.byref(attributes))
if queue < 0:
    print("FAILED no message queue of", count, "messages:", os.strerror(ctypes.get_errno()), flush=True)
    sys.exit(1)
def message(number):
    return b"%08d" % number * (1 + number % 2)
def send():
    for number in range(count):
        text = message(number)
        if libc.mq_send(queue, text, len(text), number % 3) != 0:
            sys.exit("FAILED mq_send")
def check():
    now, limit = Attributes(), time.monotonic() + float(sys.argv[2])
    while True:  # they may be on their way back still
        libc.mq_getattr(queue, ctypes.byref(now))
        if now.now == count or time.monotonic() > limit:
            break
        time.sleep(0.001)
    if now.now != count:
        print("FAILED", now.now, "of", count, "messages are left", flush=True)
        sys.exit(1)
    buffer, priority = ctypes.create_string_buffer(size), ctypes.c_uint()
    for wanted in (2, 1, 0):
        for number in range(wanted, count, 3):
            got = libc.mq_receive(queue, buffer, size, ctypes.byref(priority))
            if got < 0 or buffer.raw[:got] != message(number) or priority.value != wanted:
                print("FAILED", got, priority.value, buffer.raw[:12], "instead of", number, flush=True)
                sys.exit(1)
send()
print("READY", flush=True)
last = ""
while last != "go":
    time.sleep(0.005)
    try:
        order = open(os.environ["CAIRN_TEST_COMMAND"]).read().strip()
    except FileNotFoundError:
        continue
    if order == last:
        continue
    last = order
    check()
    send()
    print("CHECKED" if last != "go" else "EXIT-SUCCESS", last.split()[-1], flush=True)
"""


CLONE_NEWIPC = 0x08000000
COUNT = 2000  # what a user may have in all queues together is enough for five of these
libc = ctypes.CDLL(None, use_errno=True)


def messages_in(queue):
    attributes = (ctypes.c_long * 8)()
    check(libc.mq_getattr(queue, attributes) == 0, "mq_getattr")
    return attributes[3]


def kill_in_the_middle(queue, events):
    """Kills the capture while messages are out of the queue. False: they were back before we saw it."""
    if not events.wait_phase("collect") or not (victim := processes.capture()):
        return False
    limit = time.monotonic() + 5
    while messages_in(queue) == COUNT:
        if time.monotonic() > limit or not processes.stat(victim):
            return False
    os.kill(victim, signal.SIGKILL)
    return True


def test(t):
    # A queue is long where its namespace says so, and a long one is easily hit.
    if t.mode not in ("exact", "virtual") or libc.unshare(CLONE_NEWIPC) != 0:
        raise Skip("message queues of more than ten messages are for root")
    with open("/proc/sys/fs/mqueue/msg_max", "w") as file:
        file.write(str(COUNT))
    command, name = os.path.join(t.work, "command"), f"/cairn-test-{os.getpid()}"
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(COUNT), "60", name], env={"CAIRN_TEST_COMMAND": command})
    expect(program, "READY")
    t.wait_members(1)
    queue = libc.mq_open(name.encode(), os.O_RDONLY)
    check(queue >= 0, "mq_open")
    killed = number = 0
    while killed < (40 if t.soak else 5):
        number += 1
        check(number < 1000, f"of {number} captures {killed} were hit")
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        hit = kill_in_the_middle(queue, events)
        end = events.wait_end()
        events.close()
        killed += hit and end["event"] == "failed"
        ask(t, program, number)
    t.say(f"{killed} captures were killed with messages in their hands")
    program, _ = t.cycle(program, 0)
    ask(t, program, "last")
    t.order("go")
    expect(program, "EXIT-SUCCESS go")
    program.expect_exit(0)
    libc.mq_unlink(name.encode())
