#!/usr/bin/python3
"""The simplest: python3 that counts and prints, with a file open."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main, same_as_undisturbed

PROGRAM = r"""
import time
with open("counted", "w") as file:
    for number in range(60):
        print(number, flush=True)
        file.write(f"{number}\n")
        time.sleep(0.05)
"""


def test(t):
    same_as_undisturbed(t, ["/usr/bin/python3", "-c", PROGRAM])


main(test)
