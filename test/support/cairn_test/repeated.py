"""Programs of test/checkpoint that live through many checkpoints at chance moments, and then a restart."""

import time

from .serving import ask, begin, finish


def repeated_checkpoints(t, name, seconds=6, pause=0.02):
    """Checkpoints for so many seconds in all, a check after each round of them and after each restart."""
    program = begin(t, name)
    number = 0
    for round in range(t.rounds):
        end = time.monotonic() + (10 if t.soak else 1) * seconds / t.rounds
        taken, longest = 0, 0
        while time.monotonic() < end:
            began = time.monotonic()
            t.checkpoint()
            longest = max(longest, time.monotonic() - began)
            taken += 1
            t.sleep(pause * t.random.random())
        t.say(f"{taken} checkpoints, the longest took {longest:.2f} s")
        number += 1
        ask(t, program, number)
        program, _ = t.cycle(program, round)
        number += 1
        ask(t, program, number)
    finish(t, program)
