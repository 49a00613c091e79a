"""The program of memory_model, with --track-mem: the kernel is asked which pages were written to, and every page that it says
is unchanged is compared nevertheless (CAIRN_TRACK_CHECK=1). Now and then a restart begins anew, and the coordinator is
another one. In the end without that: nothing is read that is believed, and a restart has it all."""
# ci: exact
import json
import os
import random
import re
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def compared(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        notes = json.load(file)["notes"]
    return sum(int(found[1]) for found in (re.match(r"(\d+) pages are unchanged", note) for note in notes) if found)


def test(t):
    chance = random.Random(t.arguments.seed)
    t.env["CAIRN_TRACK_CHECK"] = "1"
    program = begin(t, "memory_model", str(t.arguments.seed), "8", options=["--keep", "6", "--track-mem"])
    rounds = 2000 if t.soak else 60
    with_some = pages = number = 0
    # On a busy machine few of them have: so many are taken that some have.
    while number < rounds or (with_some <= rounds / 30 and number < 5 * rounds):
        number += 1
        t.sleep(chance.random() * 0.05)
        # One that isn't asked for between two that are takes all marks away.
        folder = t.checkpoint("--track-mem", "--compress", chance.choice(["none", "none", "lz4"]))
        believed = compared(folder)
        pages += believed
        with_some += believed > 0
        if chance.random() < 0.95:
            continue
        t.pull_the_plug(spare_coordinator=chance.random() < 0.5)
        how = ["--files=use", *(["--lazy"] if t.mode == "exact" and chance.random() < 0.4 else [])]
        program = t.restart(*how, script=os.path.join(folder, "restart.sh"), name=f"restart {number}")
        ask(t, program, number)
    t.say(f"{with_some} of {number} checkpoints had something to compare, {pages} pages")
    check(with_some > rounds / 30, f"only {with_some} of {number} checkpoints had something to compare")
    # What is believed isn't read any more, and the program says whether a restart brings it back.
    del t.env["CAIRN_TRACK_CHECK"]
    for number in range(rounds // 10):
        t.pull_the_plug()
        program = t.restart("--files=use", script=os.path.join(folder, "restart.sh"), name=f"believing {number}")
        ask(t, program, f"believing {number}")
        for _ in range(4):
            t.sleep(chance.random() * 0.05)
            folder = t.checkpoint("--track-mem")
    finish(t, program)
