#!/usr/bin/python3
"""A script of bash that forks and execs as fast as it can."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.storm import storm

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
    storm(t, ["bash", "-c", SCRIPT, "bash"])


main(test, needs=["/usr/bin/bash"])
