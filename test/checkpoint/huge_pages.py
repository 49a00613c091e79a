"""Memory of hugetlb pages, from a pool that root keeps filled meanwhile, whoever the test runs as: others take from it as
well (UCX does, and so every MPICH job, as soon as there is something in it)."""
# ci: exact
# serial: the machine's pool: an MPICH job beside it takes what there is
import time
from cairn_test import check, huge_pool
from cairn_test.serving import ask, begin, finish


def rain(t, program):
    """A checkpoint every 50 ms for 10 s without a restart."""
    end, number = time.monotonic() + 10, 0
    while time.monotonic() < end:
        code, _, err = t.command("checkpoint")
        check(code == 0, f"'cairn checkpoint' ended with {code}: {err}")
        ask(t, program, f"rain-{number}")
        t.sleep(0.05)
        number += 1


def test(t):
    program = begin(t, "huge_pages")
    if t.soak:
        rain(t, program)
    for count in range(t.rounds):
        program, _ = t.cycle(program, count)
        ask(t, program, count)
    finish(t, program)


huge_pool.keep_pool(needed=5, wanted=20)
