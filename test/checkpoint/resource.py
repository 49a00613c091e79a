"""Drives one of the programs in this folder: resource.py NAME.

The program sets something up and prints READY. After each checkpoint, kill -9 and restart it is asked to check
everything; at the end it must print EXIT-SUCCESS and end with 0. A program that can't run here prints SKIP."""
from cairn_test import Again
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, t.arguments.names[0])
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        if "its number is taken" in t.text_of(program):
            # A pseudo-terminal's number is the whole machine's: somebody else opened a terminal in the meantime.
            raise Again("another program has taken the pseudo-terminal's number")
        ask(t, program, number)
    finish(t, program)
