"""A file that is written to by a mapping only is gone at the restart, and so is its folder: both are made again, and a line
says so. One that is there is used as it is."""
# ci: exact user
from cairn_test.taken_away import take_away


def test(t):
    take_away(t, "mapped_gone", ", which is written to by a mapping, is gone: made again")
