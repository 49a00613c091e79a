#!/usr/bin/python3
"""A tree of processes that checks itself all the time, over many cycles of checkpoint, kill and restart."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Failure, main


def expect(program, line):
    found = program.expect(rf"({line}|FAILED[^\r\n]*)\r?\n")
    if found[1].startswith(b"FAILED"):
        raise Failure(found[1].decode())


def test(t):
    path = os.path.join(t.build, "test", "checkpoint", "tree")
    program = t.launch([path, *(["3", "3"] if t.soak else ["2", "3"])],
                       env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    expect(program, "READY")
    cycles = 30 if t.soak else 2 * t.rounds
    for number in range(cycles):
        t.sleep(t.random.uniform(0, 0.2))
        program, _ = t.cycle(program, number)
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
