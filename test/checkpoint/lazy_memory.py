"""lazy_memory.cpp, restarted lazily: checked while its memory comes, checkpointed at once, several times in a row."""
# ci: exact
# root: lazy memory is root's
import os
from cairn_test import Skip
from cairn_test.serving import ask, begin, finish


def test(t):
    if t.mode not in ("exact", "virtual"):
        raise Skip("lazy memory is root's")
    release = tuple(int(x) for x in os.uname().release.split(".")[:2])
    if release < (6, 17):
        raise Skip("lazy memory needs Linux 6.17")
    t.env["CAIRN_INHERIT"] = "never"  # what its children have in common with it would come eagerly
    program = begin(t, "lazy_memory", "96", "8")
    for number in range(2 * t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        program = t.restart("--lazy", name=f"restart {number + 1}")
        t.say(f"round {number + 1}: checkpoint, kill -9, restart --lazy")
        if number % 2 == 0:
            continue  # the next checkpoint at once, while pages are still missing
        ask(t, program, number)
    finish(t, program)
