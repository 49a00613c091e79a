"""A script of dash that forks and execs as fast as it can."""
from cairn_test.storm import storm
NEEDS = ["/usr/bin/dash"]

SCRIPT = r"""
i=0
while [ $i -lt $1 ]; do
  i=$((i + 1))
  /bin/echo $i >> numbers
  x=$(echo $i | tr 0-9 a-j)
  (exit $((i % 3))); code=$?
  /bin/true & wait $!
  echo "$i $x $code $?"
done
"""


def test(t):
    storm(t, ["dash", "-c", SCRIPT, "dash"])
