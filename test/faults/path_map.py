"""A program's whole folder is moved between checkpoint and restart, its executable, its working folder, files that it reads
and appends to: --path-map brings it back where the folder is now; without it the restart is refused, with the file's name."""
# ci: exact user
import os
import shutil
from cairn_test import check

SCRIPT = """exec 3>>log 4<data
while read -u 4 line; do echo "$line" >&3; sleep 0.03; done
pwd -P >&3
echo DONE
"""
LINES = 80


def test(t):
    place = os.path.join(t.folder, "place 0")
    os.makedirs(os.path.join(place, "inner"))
    shutil.copy("/bin/bash", os.path.join(place, "own-bash"))
    for name, text in (("script", SCRIPT), ("data", "".join(f"line {i}\n" for i in range(LINES)))):
        with open(os.path.join(place, "inner", name), "w") as file:
            file.write(text)
    # $1: where to go. The script is open by its path as well: a shell reads on while it runs.
    program = t.launch([os.path.join(place, "own-bash"), "-c", 'cd "$1" && . ./script', "bash", os.path.join(place, "inner")])
    log = os.path.join(place, "inner", "log")
    t.wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 50, "the first lines")
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        old, place = place, os.path.join(t.folder, f"place {number + 1}")
        os.rename(old, place)
        refused = t.restart(terminal="none", wait=False)
        check(refused.exit_status() != 0, "a restart without its files")
        with open(refused.errors) as file:
            said = file.read()
        check(f"{old}/" in said and "--path-map" in said, said)
        t.programs.remove(refused)
        program = t.restart("--path-map", f"{old}={place}", name=f"restart {number + 1}")
        t.say(f"round {number + 1}: moved to '{os.path.basename(place)}'")
        size = os.path.getsize(os.path.join(place, "inner", "log"))
        t.wait_until(lambda: os.path.getsize(os.path.join(place, "inner", "log")) > size + 20, "more lines")
    program.expect("DONE")
    program.expect_exit(0)
    with open(os.path.join(place, "inner", "log")) as file:
        found = file.read().splitlines()
    check(found[:-1] == [f"line {i}" for i in range(LINES)], f"lines lost, doubled or mixed: {found}")
    check(found[-1] == os.path.join(place, "inner"), f"the working folder is {found[-1]}")
