"""1,024 threads that come and go: each checkpoint that is called good is one that a restart takes. A restart of each
generation, and a look at every other one."""
# ci: exact
# serial: hundreds of tasks on two processors
import time
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, "many_threads")
    seconds = 120 if t.soak else 4
    end, round, taken = time.monotonic() + seconds, 0, 0
    while round < t.rounds or time.monotonic() < end:
        # Threads that end just then are a matter of chance: many looks for each restart.
        for _ in range(6):
            folder = t.checkpoint()
            taken += 1
            code, out, err = t.command("restart", "--check", folder)
            check(code == 0, f"checkpoint {taken} was called good, and can't be restarted: {err or out}")
        ask(t, program, 2 * round)
        program, _ = t.cycle(program, round)
        ask(t, program, 2 * round + 1)
        round += 1
    t.say(f"{taken} checkpoints looked at, {round} restarted")
    finish(t, program)
