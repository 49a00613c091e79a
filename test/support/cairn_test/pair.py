"""A server and a client that check every byte they send each other (stream_pair.py), on two hosts."""
import os

from .session import Failure

PAIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "stream_pair.py")


def reports(t):
    found = {}
    for role in "server", "client":
        path = os.path.join(t.work, role)
        words = open(path).read().split(" ", 2) if os.path.exists(path) else []
        if len(words) == 3:
            if not words[2].startswith("fine"):
                raise Failure(f"{role}: {words[2]}")
            found[role] = int(words[1])
    return found


def flow(t, what):
    before = {}
    t.wait_until(lambda: before.update(reports(t)) or len(before) == 2, f"reports {what}")
    t.wait_until(lambda: all(reports(t).get(role, 0) > before[role] + (1 << 18) for role in before), f"both to check more {what}")
