"""narrow.py NAME: the same as resource.py NAME, restarted as where the limit of descriptors is too low for all of them at once: other
processes keep them. Into pid namespaces of the program's own they can't be brought so: that is refused, and the checkpoint is as good as before."""
import os
import runpy

from cairn_test import check
from cairn_test.serving import ask, begin, cycle, finish

OWN_PIDS = ("own_pids", "own_pid_users", "nested_pids")
again = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "resource.py"))["test"]


def test(t):
    if t.arguments.names[0] not in OWN_PIDS:
        os.environ["CAIRN_FEW_DESCRIPTORS"] = "1"
        return again(t)
    program = begin(t, t.arguments.names[0])
    t.checkpoint()
    code, _, err = t.command("restart", "--check", t.latest(), env=t.env | {"CAIRN_FEW_DESCRIPTORS": "1"})
    check(code == 3 and "is in a pid namespace of the computation's own, into which descriptors can't be brought" in err, f"{code}: {err}")
    program = cycle(t, program, 0)
    ask(t, program, 0)
    finish(t, program)
