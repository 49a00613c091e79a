"""A tree of processes that checks itself all the time, over many cycles of checkpoint, kill and restart."""
# ci: exact virtual
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, "tree", *(["3", "3"] if t.soak else ["2", "3"]))
    cycles = 30 if t.soak else 2 * t.rounds
    for number in range(cycles):
        t.sleep(t.random.uniform(0, 0.2))
        program, _ = t.cycle(program, number)
        ask(t, program, number)
    finish(t, program)
