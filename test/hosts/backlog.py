"""Connections between hosts that nobody has accepted yet: empty ones and those that are still being connected come back, also on
other hosts and with other addresses; the checkpoint waits until what has been sent is accepted. `six`: over IPv6. `user`: by an
ordinary user."""
# ci backlog: user
# soak backlog_root:
# soak backlog_six: six user
import json
import os
import time
from cairn_test import Failure, check
from cairn_test.hosts import Net, order, states

PAIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "backlog_pair.py")
ROLES = "server", "client"


def never_accepted(t, net):
    """Something was sent, and nobody accepts: the checkpoint is refused by name, and the programs go on."""
    a, b = net.hosts
    a.spawn(t.cairn, "launch", "--", "/usr/bin/python3", "-c",
            f"import socket, time; s = socket.create_server(('{a.address}', 5500)); time.sleep(1000)", name="deaf")
    net.wait_processes(1)
    net.launch(b, "/usr/bin/python3", "-c", f"import socket, time; s = socket.create_connection(('{a.address}', 5500)); "
               "s.sendall(b'hello'); time.sleep(1000)", name="caller")
    net.wait_processes(2)
    t.wait_until(lambda: "5500" in b.run("ss", "-Htn")[1], "the connection")
    code, out, err = net.root.cairn("checkpoint")
    check(code == 3 and "host" in err and "hasn't accepted" in err and "python3" in err, f"{code} {out} {err}")
    t.say(err.strip().splitlines()[-1])
    check(net.status()["processes"] == 2, "the computation lost somebody")
    net.root.must("kill")
    t.wait_until(lambda: net.status().get("state") == "idle", "the computation to have ended")


def accepted_in_time(t, net):
    """A checkpoint. It waits 3 s until what has been sent is accepted: on a machine that is busy with other things that can be too short,
    but what is refused has been waited for."""
    for _ in range(3):
        began = time.monotonic()
        code, out, err = net.root.cairn("checkpoint", "--json")
        if code == 0:
            return json.loads(out)
        waited = time.monotonic() - began
        check(code == 3 and "hasn't accepted" in err and waited >= 3, f"a checkpoint ended with {code} after {waited:.1f} s: {err}")
        t.say(f"again: {err.strip()}")
    raise Failure("three checkpoints waited for connections to be accepted, and none saw it")


def test(t):
    names = t.arguments.names
    with Net(t, 2, user="user" in names, six="six" in names) as net:
        a, b = net.hosts
        net.start_root()
        if t.soak:
            never_accepted(t, net)
        address = a.address6 if "six" in names else a.address
        for host, role in zip(net.hosts, ROLES):
            net.launch(host, "/usr/bin/python3", PAIR, role, address, "5000", os.path.join(t.work, role),
                       os.path.join(t.work, "order"), name=role)
        net.wait_processes(2)
        for number in range(t.rounds):
            order(t, number)
            t.wait_until(lambda: states(t, ROLES)["client"].get("round") == number and states(t, ROLES)["server"].get("ready"),
                         f"connections of round {number + 1}")
            slow = states(t, ROLES)["client"]["slow"]
            done = accepted_in_time(t, net)
            t.say(f"round {number + 1}: pause {done['pause_ns'] / 1e6:.1f} ms; {'; '.join(done.get('notes', []))}")
            check(not done.get("notes"), f"notes: {done['notes']}")
            net.again(number)
            t.wait_until(lambda: states(t, ROLES)["client"]["slow"] > slow + 2, "slow connections to go on")
            order(t, number, "accept")
            t.wait_until(lambda: all(state["accepted"] == number for state in states(t, ROLES).values()),
                         f"all connections of round {number + 1} to be accepted", 60)
