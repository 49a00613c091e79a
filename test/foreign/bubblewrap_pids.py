"""A sandbox of bubblewrap's with a pid namespace of its own and its own /proc: saved from outside, and by cairn inside of it."""
# ci: exact user
import os
from cairn_test import check

NEEDS = ["/usr/bin/bwrap"]

BOX = ["bwrap", "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"]

INSIDE = """export CAIRN_CKPTDIR=$PWD/inside
until_over() { until [ "$(cat count 2> /dev/null || echo 0)" -gt "$1" ]; do sleep 0.05; done; }
echo 0 > count
cairn launch --session inside bash -c 'echo "first is $$" >> ids; i=0; while :; do i=$((i + 1)); echo $i > count; sleep 0.02; done' &
until_over 5
for round in 1 2 3; do
    cairn checkpoint --session inside --kill > checkpoint.out || exit 1
    before=$(cat count)
    inside/restart.sh > restart.out 2>&1 &
    until_over $((before + 5))
    echo "round $round went on"
done
cairn kill --session inside > /dev/null
echo the end
exit 6
"""


# It ends when there is a file: a busy machine may be slow in taking the checkpoints.
OUTSIDE = """i=0
sleep 1000 & job=$!
while [ $i -lt 60 ]; do
    i=$((i + 1))
    [ $i -lt 50 ] || [ -e end ] || i=1
    echo "line $i of $$ with $job, $(cat /proc/1/comm), $(sh -c 'echo $PPID')"
    kill -0 $job || echo job lost
    sleep 0.03
done
[ "$(readlink /proc/self)" -lt 1000 ] && echo the end
exit 7
"""


def test(t):
    for name, text in (("outside.sh", OUTSIDE), ("inside.sh", INSIDE)):
        with open(os.path.join(t.work, name), "w", encoding="utf-8") as file:
            file.write(text)
    program = t.launch([*BOX, "bash", os.path.join(t.work, "outside.sh")])
    for number in range(t.rounds):
        program.expect(rf"line \d+ of 2 with 3, bwrap, 2\r?\n")
        program, _ = t.cycle(program, number, at_once=True)
    with open(os.path.join(t.work, "end"), "w"):
        pass
    program.expect(r"line 60 of 2 with 3, bwrap, 2\r?\nthe end", 60)
    program.expect_exit(7)

    code, out, err = t.run([*BOX, "--chdir", t.work, "--setenv", "PATH", f"{t.build}/bin:/usr/bin:/bin", "bash", "inside.sh"], timeout=120)
    check(code == 6 and "round 3 went on" in out, f"cairn inside: {code} {out} {err}")
