"""Checkpoints one after the other of a program whose children, and their main threads, end all the time."""
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "endings")
