"""Datagrams between hosts: what waits comes back and says where it came from, sockets that are connected and that are not reach
their peers, groups of multicast are joined; as they were, with the parts swapped, with addresses that nobody had. `six`: over IPv6.
`user`: by an ordinary user."""
# ci udp:
# soak udp_user: user
# soak udp_six: six
# soak udp_six_user: six user
import os
from cairn_test import check
from cairn_test.hosts import Net, order, states

PAIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "datagram_pair.py")


def test(t):
    names = t.arguments.names
    with Net(t, 2, user="user" in names, six="six" in names) as net:
        net.start_root()
        addresses = [host.address6 if "six" in names else host.address for host in net.hosts]
        for host, own, peer in zip(net.hosts, addresses, reversed(addresses)):
            net.launch(host, "/usr/bin/python3", PAIR, host.name, own, peer, "6000", os.path.join(t.work, host.name),
                       os.path.join(t.work, "order"), name=host.name)
        net.wait_processes(2)
        t.wait_until(lambda: all(state.get("answers", 0) > 2 for state in states(t, "ab").values()), "answers at first")
        for number in range(t.rounds):
            order(t, number, "send")
            t.wait_until(lambda: all(state["sent"] == number for state in states(t, "ab").values()), f"what is sent in round {number + 1}")
            done = net.checkpoint("--external", "refuse")
            check(not done.get("notes"), f"notes: {done.get('notes')}")
            t.say(f"round {number + 1}: pause {done['pause_ns'] / 1e6:.1f} ms")
            net.again(number)
            answered = {role: state["answers"] for role, state in states(t, "ab").items()}
            order(t, number, "read")
            t.wait_until(lambda: all(state["read"] == number for state in states(t, "ab").values()), f"all to be read in round {number + 1}")
            t.wait_until(lambda: all(state["answers"] > answered[role] + 5 for role, state in states(t, "ab").items()),
                         f"answers in round {number + 1}")
            for host in net.hosts:
                check("left out" not in host.said("restart"), host.said("restart"))
