#!/usr/bin/python3
"""Files that are open change between checkpoint and restart: a log that has grown is cut back, one that another writes and
has only grown is read on, one with other contents is refused by name, and taken as it is by --files=use."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import check, main

SCRIPT = """exec 3>>log 4<grows 5<data
read -u 5 first
n=0
until [ -e stop ]; do echo "line $((n++))" >&3; sleep 0.03; done
while read -u 4 line; do echo "grows: $line" >&3; done
read -u 5 second
echo "$first $second" >&3
echo DONE
"""


def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)


def refused(t, *options):
    """What a restart says that has to be refused."""
    program = t.restart(*options, terminal="none", wait=False)
    check(os.waitstatus_to_exitcode(program.exit_status()) == 3, f"a restart with files that have changed, {options}")
    t.programs.remove(program)
    with open(program.errors) as file:
        return file.read()


def test(t):
    log, grows, data = (os.path.join(t.work, name) for name in ("log", "grows", "data"))
    write(os.path.join(t.work, "script"), SCRIPT)
    write(grows, "one\n")
    write(data, "first\nsecond\n")
    program = t.launch(["bash", "script"])
    t.wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 50, "the first lines")
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        size = os.path.getsize(log)
        write(log, "of somebody else\n", "a")
        write(grows, f"more {number}\n", "a")
        said = refused(t, "--files=refuse")
        check(f"{log} has changed" in said and f"{grows} has changed" in said and "--files=use" in said, said)
        program = t.restart(name=f"restart {number + 1}")
        with open(program.errors) as file:
            said = file.read()
        check(f"{log} has grown since the checkpoint: cut back" in said, said)
        check(f"{grows} has changed since the checkpoint" in said and "used as it is" in said, said)
        t.wait_until(lambda: os.path.getsize(log) > size + 20, "more lines")
        t.say(f"round {number + 1}: a log was cut back, a file that has grown is read on")
    t.checkpoint("--kill")  # --files=use is for the log as well: nothing may be written to it from here on
    t.pull_the_plug()
    write(data, "other\nwords that are longer\n")
    said = refused(t)
    check(f"{data} has changed since the checkpoint" in said and "--files=use" in said, said)
    program = t.restart("--files=use", name="restart with --files=use")
    write(os.path.join(t.work, "stop"), "")
    program.expect("DONE")
    program.expect_exit(0)
    with open(log) as file:
        found = file.read().splitlines()
    numbered = [line for line in found if line.startswith("line ")]
    check(numbered == [f"line {n}" for n in range(len(numbered))], f"lines lost, doubled or mixed: {found}")
    check(found[len(numbered):-1] == ["grows: one"] + [f"grows: more {n}" for n in range(t.rounds)], f"read: {found}")
    check(found[-1].startswith("first ") and "somebody" not in "".join(found), f"the log ends with {found[-1]}")


main(test)
