"""Checkpoints one after the other of a program whose threads exec: the moment in which a thread takes the main
thread's place is hit now and then."""
# ci: user
from cairn_test.repeated import repeated_checkpoints


def test(t):
    repeated_checkpoints(t, "thread_exec")
