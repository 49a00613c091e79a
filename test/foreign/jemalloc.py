#!/usr/bin/python3
"""A threaded program under jemalloc."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.allocator import under

LIBRARY = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def test(t):
    under(t, LIBRARY, "mallctl")


main(test, needs=[LIBRARY])
