"""A bash script with subshells, a pipeline, wait and traps."""
# ci: virtual user (a user namespace adds ids, and other tests have those)
import os
from cairn_test import same_as_undisturbed

SCRIPT = r"""
trap 'echo trapped USR1 >> log' USR1
trap 'echo bye' EXIT
total=0
for i in $(seq 1 25); do
  ( sleep 0.05; echo "sub $i" > sub.$i; exit $((i % 7)) ) & child=$!
  total=$((total + $(seq 1 100 | awk '{s += $1} END {print s}' | tr -d '\n')))
  wait $child; echo "$i: child gave $?"
  (( i % 5 == 0 )) && kill -USR1 $$
  [ -n "$(jobs)" ] && jobs
  sleep 0.05
done
echo total $total
"""


def test(t):
    def prepare(folder):
        with open(os.path.join(folder, "script"), "w") as file:
            file.write(SCRIPT)
    same_as_undisturbed(t, ["bash", "./script"], prepare=prepare, at_once=True)
