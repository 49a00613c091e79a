"""Memory comes back as well where the kernel has neither PAGEMAP_SCAN nor userfaultfd."""
import os
from cairn_test.serving import begin, ask, finish


def test(t):
    for name in ("CAIRN_NO_PAGEMAP_SCAN", "CAIRN_NO_USERFAULTFD"):
        os.environ[name] = t.env[name] = "1"
    program = begin(t, "memory")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        ask(t, program, number)
    finish(t, program)
