"""lazy_memory.cpp, restarted lazily: one process, then six, checked while their memory comes, checkpointed at once, several times in a row."""
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
    serve(t, begin(t, "lazy_memory", "96", "8"), 2 * t.rounds)
    serve(t, begin(t, "lazy_memory", "8", "2", "6"), t.rounds + 1)  # 8 MiB, two that move it, six processes


def serve(t, program, times):
    for number in range(times):
        t.checkpoint()
        t.pull_the_plug()
        program = t.restart("--lazy", name=f"restart {number + 1}")
        t.say(f"round {number + 1}: checkpoint, kill -9, restart --lazy")
        if number % 2 == 0:
            continue  # the next checkpoint at once, while pages are still missing
        ask(t, program, number)
    finish(t, program)
