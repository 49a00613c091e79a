"""The simplest: python3 that counts and prints, with a file open."""
# ci: exact (a user namespace adds ids, and other tests have those)
from cairn_test import same_as_undisturbed

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
