#!/usr/bin/python3
"""Drives one of the programs in this folder: resource.py NAME.

The program sets something up and prints READY. After each checkpoint, kill -9 and restart it is asked to check
everything; at the end it must print EXIT-SUCCESS and end with 0. A program that can't run here prints SKIP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Again, Failure, Skip, main


def expect(program, line):
    found = program.expect(rf"({line}|FAILED[^\r\n]*)\r?\n")
    if found[1].startswith(b"FAILED"):
        raise Failure(found[1].decode())


def test(t):
    name = t.arguments.names[0]
    path = os.path.join(t.build, "test", "checkpoint", name)
    program = t.launch([path], env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command"), "CAIRN_TEST_MODE": t.mode})
    found = program.expect(r"^(READY|SKIP[^\r\n]*|FAILED[^\r\n]*)\r?\n")
    if found[1].startswith(b"SKIP"):
        raise Skip(found[1].decode())
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        if "its number is taken" in t.text_of(program):
            # A pseudo-terminal's number is the whole machine's: somebody else opened a terminal in the meantime.
            raise Again("another program has taken the pseudo-terminal's number")
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
