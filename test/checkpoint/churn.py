#!/usr/bin/python3
"""Checkpoints every 100 ms of a program that forks, execs, and creates and ends threads as fast as it can."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import json
import time
from cairn_test import check, main
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, "churn")
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
        ask(t, program, number)
        program, _ = t.cycle(program, round)
        number += 1
        ask(t, program, number)
    finish(t, program)


main(test)
