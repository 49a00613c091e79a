"""A sandbox of bubblewrap's with a pid namespace of its own: from outside it is refused by a message that says what to do, and that is what works: cairn inside of it."""
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


def processes_below(pid):
    """Names of all descendants."""
    names = []
    for child in open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8").read().split():
        with open(f"/proc/{child}/comm", encoding="utf-8") as file:
            names += [file.read().strip(), *processes_below(child)]
    return names


def test(t):
    program = t.launch([*BOX, "sleep", "1000"])
    t.wait_until(lambda: "sleep" in processes_below(program.pid), "the sandbox to be there")
    check([each["name"] for each in t.members()] == ["bwrap"], f"members: {t.members()}")
    code, out, err = t.run([t.cairn, "checkpoint"])
    check(code == 3 and "in a pid namespace of its own, in which cairn has to be started" in err, f"the checkpoint from outside: {code} {out} {err}")
    t.must("kill")
    program.expect_exit(-9)

    script = os.path.join(t.work, "inside.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(INSIDE)
    code, out, err = t.run([*BOX, "--chdir", t.work, "--setenv", "PATH", f"{t.build}/bin:/usr/bin:/bin", "bash", script], timeout=120)
    check(code == 6 and "round 3 went on" in out, f"cairn inside: {code} {out} {err}")
