"""Checkpoints every 100 ms of a program that forks, execs, and creates and ends threads as fast as it can. Each of them is
one that a restart takes: the long form restarts every generation, the short one looks at every and restarts three."""
# ci: exact
import os
import json
import time
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, "churn")
    seconds = 60 if t.soak else 6
    number = 0
    rounds = 1 << 30 if t.soak else t.rounds
    over = time.monotonic() + seconds
    for round in range(rounds):
        if t.soak and time.monotonic() > over:
            break
        end = time.monotonic() + seconds / t.rounds
        taken, sizes = 0, set()
        while time.monotonic() < end and not t.soak:
            folder = t.checkpoint()
            taken += 1
            code, out, err = t.command("restart", "--check", folder)
            check(code == 0, f"checkpoint {taken} was called good, and can't be restarted: {err or out}")
            with open(os.path.join(folder, "manifest.json")) as file:
                manifest = json.load(file)
            manifest = manifest.get("manifest", manifest)
            sizes.add(manifest["np"])
            t.sleep(0.1)
        check(t.soak or (taken > 0 and sizes), "no checkpoint was taken")
        if taken:
            t.say(f"{taken} checkpoints of {min(sizes)} to {max(sizes)} processes")
        number += 1
        ask(t, program, number)
        program, _ = t.cycle(program, round)
        number += 1
        ask(t, program, number)
    finish(t, program)
