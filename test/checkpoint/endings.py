"""Checkpoints one after the other of a program whose children, and their main threads, end all the time."""
# ci: exact
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "endings")
