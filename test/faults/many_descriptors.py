#!/usr/bin/python3
"""A program with nearly as many descriptors as its soft limit allows: they are saved and come back. One with nearly as many as
its hard limit allows: what a restart needs is said at the checkpoint."""
import os
import resource
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import check, main

PROGRAM = r"""
import os, resource, sys
count, soft = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with open("data", "w") as file:
    file.write("x" * 5000)
opened = []
while len(opened) == 0 or opened[-1] < count - 1:
    opened.append(os.open("data", os.O_RDONLY))
    os.lseek(opened[-1], opened[-1], os.SEEK_SET)
print("READY", len(os.listdir("/proc/self/fd")) - 1, flush=True)
for line in sys.stdin:
    wrong = [fd for fd in opened if os.lseek(fd, 0, os.SEEK_CUR) != fd]
    print("WRONG", wrong, resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
"""


def begin(t, count, soft):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(count), str(soft)])
    found = program.expect(r"READY (\d+)\r?\n")
    t.say(f"{found[1].decode()} descriptors, {soft} allowed")
    return program


def fine(program, soft):
    program.send("look\n")
    program.expect(rf"WRONG \[\] {soft}\r?\n")


def test(t):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    check(hard >= 4096, f"a hard limit of 4096 open files is needed, this one is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
    program = begin(t, 1015, 1024)
    for number in range(2):
        fine(program, 1024)
        program, _ = t.cycle(program, number)
        fine(program, 1024)
    t.pull_the_plug()

    program = begin(t, 4080, 4096)
    out = t.must("checkpoint")
    check("a restart needs" in out and "ulimit -Hn" in out, f"nothing is said of what a restart needs: {out}")
    fine(program, 4096)


main(test)
