"""Files are saved by one checkpoint alone (checkpoint --files=save, --with, CAIRN_FILES), not by one (--files=leave), by what a later
launch or a restart into a session that runs says; saved files of which list and contents are gone are refused by name."""
# ci: exact user
import os
import shutil
from cairn_test import check

PROGRAM = r"""
import os, time
own = open("own", "r+b", buffering=0)
print("READY", flush=True)
number = 0
while not os.path.exists("stop"):
    number += 1
    os.pwrite(own.fileno(), b"%010d" % number, 0)
    time.sleep(0.01)
"""


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def saved(folder):
    return os.path.exists(os.path.join(folder, "files.image"))


def restart(t, *options, **more):
    """Until the files are back: they are when all are let go."""
    program = t.restart(*options, **more)
    t.wait_until(lambda: "on (generation" in read(program.errors), "the programs to go on")
    return program


def launch(t, *options, **more):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM], options=options, **more)
    program.expect("READY")
    return program


def by_checkpoint(t):
    """The session knows of nothing."""
    launch(t)
    check(not saved(t.checkpoint()), "files were saved that nobody has asked for")
    for number in range(t.rounds):
        write(f"{t.work}/tree/inner", f"as it was {number}")
        folder = t.checkpoint("--with", "tree")
        check(saved(folder), "--with: no files")
        write(f"{t.work}/tree/inner", "of the future")
        write(f"{t.work}/tree/new", "of the future")
        t.pull_the_plug(number % 2 == 1)
        program = restart(t, name=f"restart {number + 1}")
        check(read(f"{t.work}/tree/inner") == f"as it was {number}", "--with: not put back")
        check(not os.path.exists(f"{t.work}/tree/new"), "--with: a new file stayed")
        # What was saved is saved on, also where the session's coordinator was there before.
        check(saved(t.checkpoint()), f"restart {number + 1}: files aren't saved on")
        check(not saved(t.checkpoint("--files=leave")), "--files=leave has saved files")
    t.must("kill")
    t.must("quit")
    t.programs = []
    program.exit_status()


def by_environment(t):
    program = launch(t)
    code, _, err = t.command("checkpoint", env=dict(t.env, CAIRN_FILES="save"))
    check(code == 0 and saved(t.latest()), f"CAIRN_FILES=save: {err}")
    check(not saved(t.checkpoint()), "CAIRN_FILES of one checkpoint has become the session's")
    for words, wrong in ((["--files=all"], "save or leave"), (["--with", "nowhere"], "nowhere")):
        code, _, err = t.command("checkpoint", *words)
        check(code == 2 and wrong in err, f"{words}: {code}: {err}")
    # A later launch of the session, as with all its settings.
    other = t.launch(["sleep", "100"], options=("--files=save", "--with", "tree"))
    t.wait_members(2)
    check(saved(t.checkpoint()), "a later launch --files=save has no effect")
    status = t.status()
    check(status["files"] == "save" and status["with"].endswith("/tree"), f"status: {status}")
    # The next coordinator of the session goes on so.
    t.must("quit")
    t.wait_until(lambda: t.coordinator_pid() is None, "the coordinator to end")
    code, _, err = t.command("coordinator", "--daemon", env={key: value for key, value in t.env.items() if key != "CAIRN_FILES"})
    check(code == 0, err)
    t.wait_members(2)
    check(saved(t.checkpoint()), "the next coordinator has forgotten")
    t.must("kill")
    for each in (program, other):
        each.exit_status()
    t.must("quit")
    t.programs = []


def gone(t):
    program = launch(t, "--files=save", "--with", "tree")
    write(f"{t.work}/tree/inner", "as it was")
    folder = t.checkpoint()
    t.pull_the_plug()
    write(f"{t.work}/tree/inner", "of the future")
    os.rename(f"{folder}/files.image", f"{t.folder}/files.image")
    os.rename(f"{folder}/files", f"{t.folder}/files")
    for options in (["--check"], [], ["--files=restore"]):
        code, _, err = t.command("restart", *options, folder)
        check(code in (3, 4) and "files.image" in err or options == ["--files=restore"], f"gone, {options}: {code}: {err}")
        check(code != 0, f"gone, {options}: {code}")
    check(read(f"{t.work}/tree/inner") == "of the future", "a restart that was refused has changed a file")
    t.say(f"gone: {err.strip()}")
    program = restart(t, "--files=use", name="with --files=use")
    check(read(f"{t.work}/tree/inner") == "of the future", "--files=use has changed a file")
    t.pull_the_plug()
    os.rename(f"{t.folder}/files.image", f"{folder}/files.image")
    os.rename(f"{t.folder}/files", f"{folder}/files")
    program = restart(t, name="with all there again")
    check(read(f"{t.work}/tree/inner") == "as it was", "not put back")
    write(f"{t.work}/stop", "")
    program.expect_exit(0)


def test(t):
    os.mkdir(f"{t.work}/tree")
    write(f"{t.work}/tree/inner", "")
    write(f"{t.work}/own", "0" * 10)
    by_checkpoint(t)
    by_environment(t)
    shutil.rmtree(t.ckptdir)
    os.mkdir(t.ckptdir)
    gone(t)
