"""With --track-mem a process that hardly writes anything is copied in the pause, and not forked: a restart from any generation
has what was there. With a limit of no more processes it is seen that nobody forks, and that who writes much is forked for."""
# ci: exact user
import json
import os
import random
from cairn_test import check
from cairn_test.serving import ask, begin, finish

UNFORKED = "couldn't be forked"


def notes(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        return " ".join(json.load(file)["notes"])


def rounds_of(t, kind, rounds):
    """Some pages are written to before each checkpoint; now and then one of the last three generations goes on."""
    chance = random.Random(t.arguments.seed)
    program = begin(t, "hardly_written", kind, options=["--keep", "4", "--track-mem"])
    kept = []
    for number in range(rounds):
        ask(t, program, f"{kind}-{number}-write-{chance.choice([0, 1, 1, 1, 2, 3, 30])}")
        kept = [*kept[-2:], t.checkpoint("--track-mem", "--compress", chance.choice(["none", "none", "lz4"]))]
        if chance.random() < 0.7:
            continue
        t.pull_the_plug(spare_coordinator=chance.random() < 0.5)
        script = os.path.join(chance.choice(kept), "restart.sh")
        program = t.restart("--files=use", script=script, name=f"{kind} restart {number}")
        ask(t, program, f"{kind}-{number}-again")
        kept = []
    finish(t, program)


def nobody_forks(t):
    """A superuser has no such limit."""
    program = begin(t, "hardly_written", "plain", options=["--track-mem"])
    for number in range(3):
        ask(t, program, f"before-{number}-write-1")
        check(UNFORKED not in notes(t.checkpoint()), "it was forked for the first checkpoints")
    ask(t, program, "limit")
    for number in range(3):
        ask(t, program, f"little-{number}-write-1")
        said = notes(t.checkpoint())
        check(UNFORKED not in said, f"checkpoint {number} of who has written little forks: {said}")
    ask(t, program, "much-write-40")
    said = notes(t.checkpoint())
    check(UNFORKED in said, f"the checkpoint of who has written much says nothing of the fork that failed: {said}")
    finish(t, program)


def test(t):
    for kind in ("plain", "marked"):
        rounds_of(t, kind, 100 if t.soak else 12)
    if t.mode == "user":
        nobody_forks(t)
