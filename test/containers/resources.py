"""Kernel resources under the refusals of Docker's default profile: what is told by kcmp, taken by pidfd_getfd and made by clone3 elsewhere
is told, taken and made in other ways, on new kernels and on those before 6.10."""
# timeout: 300
import os
import subprocess
import sys
from cairn_test import check, processes
from cairn_test.containers import FILTER

# Descriptions that are shared, watched, locked, on their way through a socket; threads; a vfork's memory; connections half made.
NAMES = ["epoll", "eventfd", "unix_sockets", "file_locks", "files", "threads", "vfork", "main_exits", "tcp_sockets"]


def test(t):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
    for number, name in enumerate(NAMES):
        older = {"NO_QUERY": "1"} if number % 2 == t.random.randrange(2) else {}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CAIRN_TEST_MODE")}
        done = subprocess.Popen(["/usr/bin/python3", "-c", FILTER, "/usr/bin/python3", os.path.join(tests, "support", "cairn_test"),
                                 os.path.join(tests, "checkpoint", "resource.py"), name, "--mode", "virtual", "--build", t.build],
                                env={**environment, **older}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.communicate(timeout=120)[0].decode(errors="replace")
        check(done.returncode == 0, f"{name}{' on an older kernel' if older else ''} ended with {done.returncode}:\n{text[-3000:]}")
        t.say(f"{name}{' on an older kernel' if older else ''}: passed")
    processes.reap()
