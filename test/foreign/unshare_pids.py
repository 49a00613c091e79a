"""A shell with jobs in a pid namespace of its own (`unshare -rpf`), with and without its own /proc; the parent outside waits for it."""
# ci: exact
import os
from cairn_test import same_as_undisturbed

NEEDS = ["/usr/bin/unshare"]

SCRIPT = r"""
trap 'echo trapped USR1 >> log' USR1
echo "first $$ parent $PPID"
( while :; do sleep 0.2; done ) & long=$!
total=0
for i in $(seq 1 25); do
  ( sleep 0.05; echo "sub $i" > sub.$i; exit $((i % 7)) ) & child=$!
  total=$((total + $(seq 1 100 | awk '{s += $1} END {print s}' | tr -d '\n')))
  wait $child; echo "$i: child gave $?, I am $$ of $(sh -c 'echo $PPID')"
  (( i % 5 == 0 )) && kill -USR1 $$
  kill -0 $long || echo "job lost"
  [ "$1" = own ] && [ "$(readlink /proc/self)" -gt 1 ] && [ "$(cat /proc/1/comm)" = bash ] && ls -d /proc/$long
  sleep 0.05
done
kill $long; wait $long; echo "job gave $?"
echo total $total
exit 3
"""

OUTSIDE = r"""
unshare -rpf --kill-child bash ./script; echo "inside gave $?"
unshare -rpf --mount-proc bash ./script own | sed 's,^/proc/[0-9]*$,job seen,'; echo "inside gave ${PIPESTATUS[0]}"
"""


def test(t):
    def prepare(folder):
        for name, text in (("script", SCRIPT), ("outside", OUTSIDE)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
    same_as_undisturbed(t, ["bash", "./outside"], prepare=prepare, at_once=True)
