"""A checkpoint every 50 ms for 10 s while one of the programs of this folder checks itself: rain.py NAME.

Nobody is killed: the program must not notice anything."""
import re
import time
from cairn_test import check
from cairn_test.serving import begin, expect, finish


def test(t):
    program = begin(t, t.arguments.names[0])
    t.wait_members(1)
    end = time.monotonic() + 10
    taken = refused = number = 0
    while time.monotonic() < end:
        number += 1
        t.order(f"check {number}")
        while f"CHECKED {number}\r".encode() not in (asked := program.terminal.text) and b"FAILED" not in asked:
            began = time.monotonic()
            code, _, err = t.command("checkpoint")
            # A lease that is being broken, events that are about to be read: to be tried again.
            passing = code == 3 and re.search("once that is over|try again", err)
            check(code == 0 or passing, f"'cairn checkpoint' ended with {code}: {err}")
            taken += code == 0
            refused += code != 0
            t.sleep(max(0.0, 0.05 - (time.monotonic() - began)))
            t.pump(0)
        expect(program, f"CHECKED {number}")
    t.say(f"{taken} checkpoints, {refused} to be tried again, {number} checks")
    check(taken > refused, "most checkpoints were refused")
    finish(t, program)
