"""python3's subprocess in a loop."""
# ci: user (whose ids are virtual; a user namespace adds ids, and other tests have those)
from cairn_test.storm import storm

PROGRAM = r"""
import subprocess, os, sys
for i in range(int(sys.argv[1])):
    out = subprocess.run(["/bin/echo", str(i)], capture_output=True, text=True).stdout.strip()
    code = subprocess.call(["/bin/sh", "-c", f"exit {i % 7}"])
    pid = os.fork()
    if pid == 0:
        os._exit(i % 5)
    print(i, out, code, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test(t):
    storm(t, ["/usr/bin/python3", "-c", PROGRAM])
