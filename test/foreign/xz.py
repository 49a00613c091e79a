#!/usr/bin/python3
"""xz -T2: the same bytes."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main, same_as_undisturbed


def test(t):
    size = 200 if t.soak else 4

    def prepare(folder):
        line = bytearray()
        state = 1
        with open(os.path.join(folder, "data"), "wb") as file:
            for block in range(size):
                line.clear()
                while len(line) < 1 << 20:
                    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                    line += b"%x word %d\n" % (state >> 20, state % 1000)
                file.write(line[:1 << 20])
    same_as_undisturbed(t, ["xz", "-k", "-T2", "--block-size=1MiB", "-4", "data"], prepare=prepare, least_seconds=1,
                        timeout=1200)


main(test)
