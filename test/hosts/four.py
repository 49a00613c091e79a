"""Four hosts, of which the first has no program of its own, and the folder for checkpoints is shared by all: three pairs of programs
across them, restarted three times with every part on the next host."""
# ci: none
import os
from cairn_test import check
from cairn_test.hosts import Net
from cairn_test.pair import PAIR

PAIRS = ((1, 2), (2, 3), (3, 1))


def reports(t):
    found = {}
    for number in range(len(PAIRS)):
        for role in "server", "client":
            path = os.path.join(t.work, f"{role}{number}")
            words = open(path).read().split(" ", 2) if os.path.exists(path) else []
            if len(words) == 3:
                check(words[2].startswith("fine"), f"{role}{number}: {words[2]}")
                found[role, number] = int(words[1])
    return found


def flow(t, what):
    before = {}
    t.wait_until(lambda: before.update(reports(t)) or len(before) == 2 * len(PAIRS), f"reports {what}")
    t.wait_until(lambda: all(reports(t).get(key, 0) > before[key] for key in before), f"all to check more {what}", 60)


def test(t):
    with Net(t, 4, shared=True) as net:
        net.start_root()
        for number, (server, client) in enumerate(PAIRS):
            for role, at in ("server", server), ("client", client):
                net.launch(net.hosts[at], "/usr/bin/python3", PAIR, role, net.hosts[server].address, str(5000 + number),
                           os.path.join(t.work, f"{role}{number}"), name=f"{role}{number}")
        net.wait_processes(2 * len(PAIRS))
        flow(t, "at first")
        for number in range(t.rounds):
            done = net.checkpoint(host=net.hosts[number % 4])
            check(done["processes"] == 6 and done["hosts"] == 3, f"checkpoint: {done}")
            t.say(f"round {number + 1}: pause {done['pause_ns'] / 1e6:.1f} ms, durable after {done['total_ns'] / 1e6:.0f} ms")
            net.kill_programs()
            live = net.hosts[1:]
            parts = [host.name for host in live]
            shift = number % 3
            net.restart({host: parts[(i + shift) % 3] for i, host in enumerate(live)})
            flow(t, f"in round {number + 1}")
