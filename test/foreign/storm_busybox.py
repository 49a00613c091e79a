"""A script of busybox' shell, a static program that forks and execs as fast as it can, static programs and dynamic ones."""
# ci: user
from cairn_test.storm import SHELL_SCRIPT, storm
NEEDS = ["/usr/bin/busybox"]


def test(t):
    storm(t, ["busybox", "sh", "-c", SHELL_SCRIPT, "sh"])
