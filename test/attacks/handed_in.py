"""A member of another user's names a file of root's as its region's, and has a static child that may open nothing: a checkpoint by root hands the child the
region that the coordinator knows, and not the file."""
# ci: exact
import os
from cairn_test import check

NEEDS = ["/usr/bin/setpriv"]

NOBODY = 65534

# It is a member of its own user's region by then, whose path is a word that it may write to (common/region.h).
HOSTILE = r"""
import ctypes, os, subprocess, sys
secret, child, said = sys.argv[1].encode(), sys.argv[2], sys.argv[3]
mine = [line.split() for line in open("/proc/self/maps") if line.split()[1].startswith("rw-s") and "region" in line]
assert len(mine) == 1, mine
begin, end = (int(word, 16) for word in mine[0][0].split("-"))
memory = (ctypes.c_char * (end - begin)).from_address(begin)
path = bytes(memory).find(os.environ["CAIRN_REGION"].encode())
assert path >= 0
restricted = subprocess.Popen([child, "call"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
assert restricted.stdout.readline() == b"READY\n"
memory[path:path + len(secret) + 1] = secret + b"\0"
with open(said, "w") as file:
    file.write(str(restricted.pid))
restricted.wait()
"""


def test(t):
    os.chmod(t.folder, 0o711)
    os.chmod(t.work, 0o777)
    secret, said = os.path.join(t.folder, "secret"), os.path.join(t.work, "said")
    with open(secret, "wb") as file:
        file.write(os.urandom(64 << 20))  # as long as any region
    os.chmod(secret, 0o600)
    t.launch(["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", HOSTILE, secret,
              os.path.join(t.build, "test/checkpoint/static/landlock"), said], terminal="none",
             env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command"), "CAIRN_TEST_MODE": t.mode})
    t.wait_until(lambda: os.path.exists(said) and open(said, encoding="utf-8").read(), "the hostile member to begin", 30)
    with open(said, encoding="utf-8") as file:
        child = file.read()
    for number in range(3):
        code, out, err = t.command("checkpoint", "--landlock", "drop")
        with open(f"/proc/{child}/maps", encoding="utf-8") as file:
            maps = file.read()
        check("secret" not in maps, f"the child has got root's file: {maps}")
        check(code == 0 and "cairn-region" in maps, f"checkpoint {number} ended with {code}: {err or out}; the child has {maps}")
