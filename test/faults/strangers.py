#!/usr/bin/python3
"""A restart while another group is being served is refused; a copy in another session works; so does a second
restart of the same checkpoint later."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Terminal, check, main, processes
from cairn_test.ticking import Ticking


def test(t):
    group = Ticking(t, children=1)
    group.checkpoint_works("before")
    script = os.path.join(t.ckptdir, "restart.sh")
    # The group itself still runs.
    code, out, err = t.run([script, "--ids=virtual"], timeout=30)
    check(code == 3, f"a restart of the running group ended with {code}: {err or out}")
    t.say(err.strip())
    t.pull_the_plug()
    # Another group runs in the session.
    other = Ticking(t, name="other", children=0)
    code, out, err = t.run([script, "--ids=virtual"], timeout=30)
    check(code == 3, f"a restart in a session with another group ended with {code}: {err or out}")
    t.say(err.strip())
    other.all_tick("after a stranger was refused")
    other.checkpoint_works("after a stranger was refused")
    # In another session it is welcome, beside the first, and a copy of it in a third.
    good = [os.path.join(where, "restart.sh") for where, _, names in os.walk(t.ckptdir) if "manifest.json" in names]
    first = [path for path in good if f"-{group.counts()[0][0]}-" in path]
    check(len(first) == 1, f"checkpoints of the first group: {first} of {good}")
    copies = []
    for name in ("second", "third"):
        copy = t.restart("--session", name, script=first[0], ids="virtual", wait=False, env={"CAIRN_SESSION": name})
        copies.append(copy)

        def up():
            code, out, err = t.command("status", "--session", name, "--json")
            return code == 0 and '"running"' in out
        t.wait_until(up, f"session {name} to run")
        group.all_tick(f"as session {name}")
        code, out, _ = t.command("list", "--session", name)
        t.say(f"session {name}: {len(out.splitlines()) - 1} processes")
    t.must("kill", "--session", "third")
    t.must("kill", "--session", "second")
    for copy in copies:
        copy.exit_status()
    other.all_tick("after the copies have gone")


main(test)
