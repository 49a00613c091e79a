"""cairn outside: a child of a program of the session, and all that it starts, is no part of the computation: a checkpoint doesn't save
it and isn't refused for it (in a session of its own, which would else have the computation's id), it goes on when the computation is killed, a restart doesn't bring it back; pipes to it are outer ones."""
# ci: exact virtual user
import os
from cairn_test import check, processes

SCRIPT = r"""
$CAIRN outside -- setsid bash -c ' echo $$ > outside.pid; sleep 1000 & echo $! > inner.pid; while :; do echo >> ticks; sleep 0.05; done' &
child=$!
mkfifo fifo
$CAIRN outside cat fifo &
exec 9> fifo
until [ -s inner.pid ]; do sleep 0.02; done
echo READY
while ! [ -e stop ]; do echo tick; sleep 0.05; done
wait $child; echo "WAITED $?"
env | grep -c CAIRN_OUTSIDE
"""


def read(t, name):
    with open(os.path.join(t.work, name)) as file:
        return file.read()


def test(t):
    for words, wrong in ((["outside"], 2), (["outside", "--bad"], 2), (["outside", "/nowhere/program"], 127)):
        code, _, err = t.command(*words)
        check(code == wrong, f"{words}: {code}: {err}")
    program = t.launch(["bash", "-c", SCRIPT], env={"CAIRN": t.cairn})
    program.expect("READY")
    program.expect("tick")
    outside, inner = int(read(t, "outside.pid")), int(read(t, "inner.pid"))
    for pid in (outside, inner):
        with open(f"/proc/{pid}/maps") as maps:
            check("libcairn" not in maps.read(), f"{pid} has the library")
    for number in range(t.rounds):
        folder = t.checkpoint()
        code, out, err = t.command("inspect", folder)
        check(code == 0 and f"p{outside}.image" not in os.listdir(folder) and f"p{inner}.image" not in os.listdir(folder),
              f"the child outside was saved: {os.listdir(folder)}")
        check(not any(each["real"] in (outside, inner) for each in t.members()), "it is listed")
        t.must("kill")
        program.exit_status()
        t.programs.remove(program)
        for pid in (outside, inner):
            check(processes.stat(pid) and processes.stat(pid)[1] not in "ZX", f"{pid} has gone with the computation")
        before = len(read(t, "ticks"))
        program = t.restart(name=f"restart {number + 1}")
        program.expect("tick")
        t.wait_until(lambda: len(read(t, "ticks")) > before, "the one outside to go on")
        t.say(f"round {number + 1}: it goes on, and isn't saved")
    # It can launch, and what it launches is a member; a tool of cairn's that a program of the session runs is none.
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    program.expect(r"WAITED -?\d+\r?\n")
    program.exit_status()
    t.programs.remove(program)
    os.unlink(os.path.join(t.work, "stop"))
    program = t.launch(["bash", "-c", "$CAIRN checkpoint -q; echo \"INSIDE $?\"; $CAIRN outside $CAIRN launch sleep 1000"],
                       env={"CAIRN": t.cairn})
    program.expect(r"INSIDE 0\r?\n")
    t.wait_until(lambda: any("sleep" in each["name"] for each in t.members()), "what was launched from outside to be a member")
    t.checkpoint()
    t.must("kill")
    program.exit_status()
    for pid in (outside, inner):
        os.kill(pid, 9)
