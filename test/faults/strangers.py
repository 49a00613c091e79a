"""A restart while another group is being served is refused; a copy in another session works; so does a second
restart of the same checkpoint later. Another user's process that is no member's child doesn't get the session's region."""
import os
import re
import sys
from cairn_test import check
from cairn_test.ticking import Ticking


ASK = """
import socket, sys
for _ in range(300):
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked.settimeout(20)
    asked.connect("\\0" + sys.argv[1])
    data, descriptors, _, _ = socket.recv_fds(asked, 100, 4)
    if data or descriptors:
        sys.exit("the gate has opened")
"""


def knock(t):
    """Asks as a stranger for what only children of members get (coordinator/gate.h)."""
    owned = set()
    folder = f"/proc/{t.coordinator_pid()}/fd"
    for name in os.listdir(folder):
        found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(os.path.join(folder, name)))
        owned.update(found.groups() if found else ())
    with open("/proc/net/unix", errors="replace") as file:
        gates = [words[7][1:] for words in map(str.split, file)
                 if len(words) == 8 and words[6] in owned and words[7].startswith(("@cairn-gate", "@cairn-region"))]
    check(len(gates) == 2, f"gates of the session: {gates}")
    user = t.own_by_user()
    for gate in gates:
        code, out, err = t.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", sys.executable, "-c", ASK, gate])
        check(code == 0, f"a stranger at the gate {gate}: {code} {out}{err}")
    with open(os.path.join(t.env["CAIRN_RUNDIR"], t.name, "coordinator.log")) as file:
        check("is no child of a member" in file.read(), "nothing is said of the stranger")


def test(t):
    group = Ticking(t, children=1)
    if t.mode in ("exact", "virtual"):
        knock(t)
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
