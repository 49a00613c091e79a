"""Hundreds of programs that are born by vfork and execed as fast as that goes (python3's subprocess uses it, as do make, gcc and
java): each of them is a member, however the coordinator's looks fall between their vfork, their exec and their registration."""
# ci: user
import json
import time
from cairn_test import check

PROGRAM = r"""
import subprocess, sys
children = [subprocess.Popen(["sleep", "600"]) for _ in range(int(sys.argv[1]))]
print("all are there", flush=True)
sys.stdin.readline()
for child in children:
    assert child.poll() is None
    child.kill()
    child.wait()
print("the end", flush=True)
"""


def processes(t):
    code, out, err = t.command("status", "--json")
    check(code == 0, err)
    return json.loads(out)["processes"]


def test(t):
    count = 2000 if t.soak else 300
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(count)])
    program.expect(r"all are there\r?\n", timeout=120)
    # The last of them may still be at their loaders' work.
    end = time.monotonic() + 20
    while (there := processes(t)) != count + 1 and time.monotonic() < end:
        t.sleep(0.1)
    check(there == count + 1, f"{there} processes have registered, and {count + 1} are there")
    program, _ = t.cycle(program, 0)
    check(processes(t) == count + 1, f"{processes(t)} are there after the restart")
    program.send("go\n")
    program.expect(r"the end\r?\n", timeout=60)
    program.expect_exit(0)
