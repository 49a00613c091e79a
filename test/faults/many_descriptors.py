"""As many descriptors as a program may have, by its soft limit and by its hard one, in one process and in two: they come back under
the limit that they were saved under, whatever kind of thing they lead to. One more than can be had again is refused by name."""
# ci: user
# lock pipes: what a user's pipes may hold in all (pipe-user-pages-soft) is enough for one of them
import os
import resource
import time
from cairn_test import check, processes

# Every number below `count` is taken: by a file at a position of its own, an eventfd, both ends of a pipe with something in it, or a
# duplicate. No number may be free when it looks at them, so it opens nothing for that.
PROGRAM = r"""
import os, resource, select, sys
count, soft, options = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with open("data", "w") as file:
    file.write("x" * 5000)
if "different" in options:
    for number in range(3):
        own = os.open(os.ttyname(number), os.O_RDWR)
        os.dup2(own, number)
        os.close(own)
to_child = child = from_child = None
if "two" in options:
    (asked, to_child), (from_child, answers) = os.pipe(), os.pipe()
    child = os.fork()
epoll = select.epoll()
files, counters, pipes, twins, inherited = [], [], [], [], []

def fill():
    while True:
        try:
            fd = os.open("data", os.O_RDONLY)
        except OSError:
            return
        if fd >= count:
            os.close(fd)
            return
        if fd % 50 == 49 and "different" not in options:
            os.dup2(files[-1], fd)
            twins.append((fd, files[-1]))
        elif fd % 4 == 1:
            os.close(fd)
            counters.append(os.eventfd(fd, os.EFD_NONBLOCK))
        elif fd % 16 == 2 and fd + 1 < count:  # a user may have 1,024 pipes (pipe-user-pages-soft)
            os.close(fd)
            pipes.append(os.pipe())
            os.write(pipes[-1][1], b"%d" % fd)
        else:
            os.lseek(fd, fd, os.SEEK_SET)
            files.append(fd)
        if fd % 7 == 0:
            os.set_inheritable(fd, True)
            inherited.append(fd)

def look():
    wrong = [fd for fd in files if os.lseek(fd, 0, os.SEEK_CUR) != fd]
    for fd in counters:
        value = os.eventfd_read(fd)
        os.eventfd_write(fd, value)
        if value != fd:
            wrong.append(fd)
    for reader, writer in pipes:
        text = os.read(reader, 100)
        os.write(writer, text)
        if text != b"%d" % reader:
            wrong.append(reader)
    for twin, of in twins:
        os.lseek(twin, 1, os.SEEK_CUR)
        if os.lseek(of, 0, os.SEEK_CUR) != of + 1:
            wrong.append(twin)
        os.lseek(of, of, os.SEEK_SET)
    wrong += [fd for fd in files if os.get_inheritable(fd) != (fd in inherited)]
    if epoll.poll(0) != [(counters[-1], select.EPOLLIN)]:
        wrong.append(epoll.fileno())
    return wrong

fill()
epoll.register(counters[-1], select.EPOLLIN)
if child == 0:
    os.write(answers, b"[]\n")
    while os.read(asked, 1):
        os.write(answers, (str(look()) + "\n").encode())
    os._exit(0)

def both():
    if child:
        os.write(to_child, b"?")
    return str(look()), os.read(from_child, 1000).decode().strip() if child else "[]"

if child:
    os.read(from_child, 1000)
print("READY", files[-1], len(files) + len(counters) + 2 * len(pipes) + len(twins), flush=True)
for line in sys.stdin:
    if line == "close\n":
        os.close(files.pop())
    print("WRONG", *both(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
"""


def begin(t, count, soft, *options):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(count), str(soft), *options])
    found = program.expect(r"READY (\d+) (\d+)\r?\n", timeout=60)
    highest, filled = int(found[1]), int(found[2])
    check(highest >= count - 4 and filled >= count - 20, f"{filled} descriptors up to {highest}: not all numbers below {count} are taken")
    t.say(f"descriptors up to {highest}, {soft} allowed {' '.join(options)}")
    return program


def keepers(t):
    """The processes that keep descriptors for a restart in this test's folder, and their parents."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                stat = file.read()
            if "(cairn-keeper)" in stat and os.readlink(f"/proc/{pid}/cwd") == t.work:
                found.append((int(pid), int(stat.rsplit(")", 1)[1].split()[1])))
        except OSError:
            pass  # it has ended
    return found


def fine(program, soft, line="look"):
    program.send(line + "\n")
    program.expect(rf"WRONG \[\] \[\] {soft}\r?\n", timeout=60)


def rounds(t, program, soft, count=2):
    for number in range(count):
        fine(program, soft)
        program, _ = t.cycle(program, number)
        fine(program, soft)
        t.wait_until(lambda: not keepers(t), "the end of those who kept descriptors")
    return program


def killed_midway(t):
    """Who keeps descriptors for a restart ends with it; it goes as well as ever the next time."""
    caught = 0
    for _ in range(20):
        if caught == 3:
            break
        program = t.restart(wait=False)
        deadline = time.monotonic() + 20
        while not keepers(t) and processes.status_of(program.pid) is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(t.random.uniform(0, 0.1))
        found = keepers(t)
        for tool in {tool for _, tool in found}:
            os.kill(tool, 9)
            caught += 1
        t.wait_until(lambda: not keepers(t), "the end of those who kept descriptors")
        t.pull_the_plug()
    check(caught == 3, f"a restart was killed midway {caught} times, not 3")


def test(t):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    check(hard >= 4096, f"a hard limit of 4096 open files is needed, this one is {hard}")
    processes.limit_descriptors(1024, 4096)
    rounds(t, begin(t, 1015, 1024), 1024)
    t.pull_the_plug()

    program = begin(t, 4080, 4096)
    t.checkpoint()
    t.pull_the_plug()
    killed_midway(t)
    fine(t.restart(), 4096)
    t.pull_the_plug()

    for count, options in ((4080, []), (4080, ["two"]), (4096, [])):
        rounds(t, begin(t, count, 4096, *options), 4096)
        t.pull_the_plug()

    program = begin(t, 4096, 4096, "different")
    code, _, err = t.command("checkpoint")
    check(code == 3 and "4096 different open files" in err and "4095" in err, f"{code}: {err}")
    fine(program, 4096, "close")
    rounds(t, program, 4096, 1)
