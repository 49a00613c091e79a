#!/usr/bin/python3
"""Streams that check themselves, over every kind of socket that keeps order, through a rain of checkpoints and restarts."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "streams", seconds=2, pause=0.1)


main(test)
