"""Files that are open change between checkpoint and restart: a log of the program's own that has grown is cut back when the
programs go on, and what is cut is kept; one that other programs write too keeps all of its lines, also when the restart fails;
one that another writes and has only grown is read on; one with other contents is refused by name, and taken as it is by
--files=use."""
# ci: user (files that have changed are the same to everybody)
import os
from cairn_test import check

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


def read(path):
    with open(path) as file:
        return file.read()


def shared_log(t):
    """A job's log: its programs have inherited it, and others write to it as well, while the job is down and while it is restarted."""
    log, late = (os.path.join(t.work, name) for name in ("job.log", "late"))
    write(log, "before the job\n")
    write(late, "x")
    script = "exec 5<late; n=0; while [ ! -e stop ]; do echo line $((n++)); sleep 0.03; done; echo DONE"
    program = t.launch(["bash", "-c", 'exec >>job.log; exec bash -c "$1"', "bash", script])
    t.wait_until(lambda: "line 3" in read(log), "the first lines")
    t.checkpoint()
    t.pull_the_plug()
    others = "of another program\n"
    write(log, others, "a")
    was = read(log)
    os.rename(late, late + ".was")
    refused(t)
    check(read(log) == was, "a restart that failed has changed the log")
    os.rename(late + ".was", late)
    with open(log, "a") as other:  # has it open all the time
        program = t.restart(name="restart of a job", terminal="none")
        said = read(program.errors)
        check("job.log has changed since the checkpoint" in said and "standard output" in said and "--files=truncate" in said, said)
        other.write(others)
    write(os.path.join(t.work, "stop"), "")
    t.wait_until(lambda: "DONE" in read(log), "the job to end")
    check(read(log).startswith(was) and read(log).count(others) == 2, f"lines of others are lost: {read(log)}")
    os.unlink(os.path.join(t.work, "stop"))
    t.pull_the_plug()
    # What the caller wants cut is cut, and kept.
    was = read(log)
    program = t.restart("--files=truncate", name="restart that cuts", terminal="none")
    t.wait_until(lambda: "job.log.cut-1" in read(program.errors), "the restart to say where what was cut is")
    t.wait_until(lambda: os.path.exists(log + ".cut-1") and was.endswith(read(log + ".cut-1")) and others in read(log + ".cut-1"), "what was cut")
    t.must("kill")
    t.pull_the_plug()
    t.say("a log that others write to keeps their lines")


def test(t):
    shared_log(t)
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
        check(read(f"{log}.cut-{number + 1}").endswith("of somebody else\n"), "what was cut isn't kept")
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
