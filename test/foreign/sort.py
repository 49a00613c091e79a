#!/usr/bin/python3
"""sort --parallel: the same lines, with temporary files."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hashlib
from cairn_test import main, same_as_undisturbed


def test(t):
    size = 200 if t.soak else 20

    def prepare(folder):
        state = 1
        with open(os.path.join(folder, "data"), "wb") as file:
            seed = hashlib.sha512(b"seed").digest()
            lines = []
            for number in range(size * 30000):
                if number % 4 == 0:
                    seed = hashlib.sha512(seed).digest()
                state = (state * 1103515245 + 12345) & 0x7fffffff
                lines.append(b"%08x %s" % (state, seed[number % 4 * 16:number % 4 * 16 + 12].hex().encode()))
                if len(lines) == 10000:
                    file.write(b"\n".join(lines) + b"\n")
                    lines.clear()
        os.mkdir(os.path.join(folder, "tmp"))
    same_as_undisturbed(t, ["sort", "--parallel=2", "-S", f"{size // 4}M", "-T", "tmp", "-o", "sorted", "data"],
                        prepare=prepare, least_seconds=0.5, at_once=True, timeout=1200, env={"LC_ALL": "en_US.UTF-8"})


main(test)
