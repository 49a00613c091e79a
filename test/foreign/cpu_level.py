"""`cairn launch --cpu=LEVEL`: the dynamic linker of bash's children takes no libraries and functions above the level, also after restarts; the
checkpoint says the level, and loses it where a program was executed without that environment."""
# ci: exact
import json
import os
from cairn_test import check
PROGRAM = r"""
while [[ ! -e stop ]]; do
    /lib64/ld-linux-x86-64.so.2 --help | sed -n 's/^  x86-64-\(v[0-9]\) (supported.*/\1/p' | tr '\n' ' ' >found.new
    mv found.new found
    sleep 0.1
done
echo done
"""
BARE = r"""env -i /bin/sleep 1000 & """ + PROGRAM + "kill %1"


def levels(t):
    """What the linker would take, said anew."""
    path = os.path.join(t.work, "found")
    if os.path.exists(path):
        os.unlink(path)
    t.wait_until(lambda: os.path.exists(path), "the linker to be asked")
    with open(path) as file:
        return file.read().split()


def level_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    check(manifest["cpu_state"], "the manifest has no layout of registers")
    return manifest["cpu_level"], " ".join(manifest["notes"])


def test(t):
    bash = ["/bin/bash", "-c", PROGRAM]
    t.launch(bash, name="host")
    native = levels(t)
    level, _ = level_of(t.checkpoint())
    check(level == "", f"without --cpu the level is {level!r}")
    t.pull_the_plug()
    for wanted in ("x86-64-v2", "x86-64-v3"):
        allowed = [each for each in native if each <= wanted[-2:]]
        t.launch(bash, options=[f"--cpu={wanted}"], name=wanted)
        for number in range(t.rounds):
            check(levels(t) == allowed, f"--cpu={wanted}: the linker takes {levels(t)}, of {native}")
            level, notes = level_of(t.checkpoint("--kill"))  # what is renamed between the two could not be found again
            check(level == wanted and "--cpu" not in notes, f"{level!r}: {notes}")
            t.pull_the_plug(number % 2 == 1)
            t.restart(name=f"{wanted}, restart {number + 1}")
        t.pull_the_plug()
    t.launch(["/bin/bash", "-c", BARE], options=["--cpu=x86-64-v2"], name="bare")
    levels(t)
    t.wait_until(lambda: "sleep" in t.must("list"), "sleep to be executed")
    level, notes = level_of(t.checkpoint())
    check(level == "" and "(sleep) was executed without the environment" in notes, f"{level!r}: {notes}")
    t.pull_the_plug()
    code, _, said = t.command("launch", "--cpu=pentium", "/bin/true")
    check(code == 2 and "not 'pentium'" in said, f"{code}: {said}")
