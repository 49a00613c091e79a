"""A server and a client on two hosts that check every byte they send each other: three rounds of checkpoint, kill -9 and restart,
as they were, with their parts swapped, and with the hosts' addresses swapped. Names of sockets stay what they were.
`pair.py user`: by an ordinary user, who can't look at what is in between. `pair.py six`: over IPv6."""
# ci pair:
# ci pair_user: --rounds 1 user
# soak pair_six: six
# soak pair_six_user: six user
import os
from cairn_test import check
from cairn_test.hosts import Net
from cairn_test.pair import PAIR, flow

def test(t):
    names = t.arguments.names
    with Net(t, 2, user="user" in names, six="six" in names) as net:
        a, b = net.hosts
        net.start_root()
        address = a.address6 if "six" in names else a.address
        net.launch(a, "/usr/bin/python3", PAIR, "server", address, "5000", os.path.join(t.work, "server"))
        net.launch(b, "/usr/bin/python3", PAIR, "client", address, "5000", os.path.join(t.work, "client"))
        net.wait_processes(2)
        flow(t, "before the first checkpoint")
        for number in range(t.rounds):
            for _ in range(50 if t.soak else 2):
                net.checkpoint()
            done = net.checkpoint()
            check(done["processes"] == 2 and done["hosts"] == 2, f"checkpoint: {done}")
            t.say(f"round {number + 1}: pause {done['pause_ns'] / 1e6:.1f} ms, durable after {done['total_ns'] / 1e6:.0f} ms")
            net.kill_programs()
            where = {a: "a", b: "b"}
            if number % 3 == 1:
                where = {a: "b", b: "a"}
            if number % 3 == 2:
                os.kill(b.coordinator_pid(), 9)
                os.kill(a.coordinator_pid(), 9)
                t.sleep(0.2)
                net.swap_addresses(a, b)
                net.start_root()
            net.restart(where)
            # Each host writes its own part, whoever's that was before.
            flow(t, f"in round {number + 1}")
        listed = net.root.must("list")
        check("python3" in listed, listed)
