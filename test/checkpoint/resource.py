#!/usr/bin/python3
"""Drives one of the programs in this folder: resource.py NAME.

The program sets something up and prints READY. After each checkpoint, kill -9 and restart it is asked to check
everything; at the end it must print EXIT-SUCCESS and end with 0. A program that can't run here prints SKIP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Again, main
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


main(test)
