"""Programs of test/checkpoint that live through many checkpoints at chance moments, and then a restart."""

import os
import time

from .session import Failure


def expect(program, line, timeout=60):
    found = program.expect(rf"({line}|FAILED[^\r\n]*)\r?\n", timeout=timeout)
    if found[1].startswith(b"FAILED"):
        raise Failure(found[1].decode())


def repeated_checkpoints(t, name, seconds=6, pause=0.02):
    """Checkpoints for so many seconds in all, a check after each round of them and after each restart."""
    path = os.path.join(t.build, "test", "checkpoint", name)
    program = t.launch([path], env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    expect(program, "READY")
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
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
        program, _ = t.cycle(program, round)
        number += 1
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)
