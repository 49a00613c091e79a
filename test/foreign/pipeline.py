#!/usr/bin/python3
"""tar | gzip | sha256sum."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main, same_as_undisturbed


def test(t):
    def prepare(folder):
        data = os.path.join(folder, "data")
        os.mkdir(data)
        state = 1
        for number in range(40):
            with open(os.path.join(data, f"file{number:02}"), "wb") as file:
                out = bytearray()
                while len(out) < (4 << 20 if t.soak else 300000):
                    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                    out += b"%x the quick brown fox %d\n" % (state >> 40, state % 100)
                file.write(out)
            os.utime(file.name, (1, 1))
        os.utime(data, (1, 1))
    same_as_undisturbed(t, ["bash", "-c", "tar --sort=name -cf - data | gzip -9n | tee copy.gz | sha256sum > sum; "
                                          "echo ${PIPESTATUS[@]}"],
                        prepare=prepare, least_seconds=1, timeout=600)


main(test)
