"""The file of a listening Unix socket is gone at the restart, or its whole folder: both are made again, and for the folder a line
says so."""
# ci: exact user
from cairn_test.taken_away import take_away


def test(t):
    take_away(t, "unix_gone")
