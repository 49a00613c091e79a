"""Streams that check themselves, over every kind of socket that keeps order, through a rain of checkpoints and restarts."""
# ci: user
# network: own (the ports that it has had must be free at its restart)
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "streams", seconds=2, pause=0.1)
