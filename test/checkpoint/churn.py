#!/usr/bin/python3
"""Checkpoints every 100 ms of a program that forks, execs, and creates and ends threads as fast as it can."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import json
import time
from cairn_test import Failure, check, main


def expect(program, line):
    found = program.expect(rf"({line}|FAILED[^\r\n]*)\r?\n", timeout=60)
    if found[1].startswith(b"FAILED"):
        raise Failure(found[1].decode())


def test(t):
    path = os.path.join(t.build, "test", "checkpoint", "churn")
    program = t.launch([path], env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    expect(program, "READY")
    seconds = 60 if t.soak else 6
    number = 0
    for round in range(t.rounds):
        end = time.monotonic() + seconds / t.rounds
        taken, sizes = 0, set()
        while time.monotonic() < end:
            folder = t.checkpoint()
            taken += 1
            with open(os.path.join(folder, "manifest.json")) as file:
                manifest = json.load(file)
            manifest = manifest.get("manifest", manifest)
            sizes.add(manifest["np"])
            t.sleep(0.1)
        check(taken > 0 and sizes, "no checkpoint was taken")
        t.say(f"{taken} checkpoints of {min(sizes)} to {max(sizes)} processes")
        number += 1
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
        program, _ = t.cycle(program, round)
        number += 1
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
