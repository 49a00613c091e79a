#!/usr/bin/python3
"""Checkpoints one after the other of a program whose threads exec: the moment in which a thread takes the main
thread's place is hit now and then."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "thread_exec")


main(test)
