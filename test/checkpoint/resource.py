"""Drives one of the programs in this folder: resource.py NAME.

The program sets something up and prints READY. After each checkpoint, kill -9 and restart it is asked to check
everything; at the end it must print EXIT-SUCCESS and end with 0. A program that can't run here prints SKIP."""
from cairn_test.serving import ask, begin, cycle, finish


def test(t):
    program = begin(t, t.arguments.names[0])
    for number in range(t.rounds):
        program = cycle(t, program, number)
        ask(t, program, number)
    finish(t, program)
