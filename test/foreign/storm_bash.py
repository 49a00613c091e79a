"""A script of bash that forks and execs as fast as it can."""
# ci: user (whose ids are virtual; a user namespace adds ids, and other tests have those)
from cairn_test.storm import shell_storm
NEEDS = ["/usr/bin/bash"]


def test(t):
    shell_storm(t, "bash")
