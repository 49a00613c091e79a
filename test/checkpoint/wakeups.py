"""Sleeping calls and a timer of the program's, against checkpoints every 5 ms: no wake-up is lost."""
# ci: user
import os
from cairn_test import Failure, check, processes


def test(t):
    path = os.path.join(t.build, "test", "checkpoint", "wakeups")
    program = t.launch([path, "100000" if t.soak else "2000"])
    program.expect("READY")
    t.wait_members(1)
    taken = 0
    while processes.status_of(program.pid) is None:
        code, out, err = t.command("checkpoint")
        if code == 0:
            taken += 1
        elif processes.status_of(program.pid) is None and t.members():
            raise Failure(f"'cairn checkpoint' ended with {code}: {err}")
        if t.soak and taken % 500 == 0:
            t.say(f"{taken} checkpoints")
        t.sleep(0.005)
    t.say(f"{taken} checkpoints")
    check(taken >= (1000 if t.soak else 10), f"only {taken} checkpoints were taken while the program slept and woke")
    program.expect("EXIT-SUCCESS")
    program.expect_exit(0)
