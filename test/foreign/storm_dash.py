"""A script of dash that forks and execs as fast as it can."""
# ci: exact
from cairn_test.storm import shell_storm
NEEDS = ["/usr/bin/dash"]


def test(t):
    shell_storm(t, "dash")
