"""TUN/TAP: descriptions of /dev/net/tun that are attached to an interface, in a network namespace of the test's own: what a run that
fails leaves there goes with it."""
# ci: exact
# root: interfaces are for who has CAP_NET_ADMIN
import os
import runpy
from cairn_test import modes

OWN = "CAIRN_TEST_NETWORK"
if os.getuid() == 0 and OWN not in os.environ:
    os.environ[OWN] = "1"
    os.execvp("unshare", ["unshare", "--net", *modes.own_command()])

driver = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "resource.py"))


def test(t):
    t.arguments.names = ["tun"]
    driver["test"](t)
