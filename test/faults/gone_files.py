"""Files that are open are gone at the restart: a log that is appended to is made anew, also where another program reads it; one that is written
in place is refused by name, and made anew by --files=make, or replaced by --path-map FILE=/dev/null."""
# ci: exact user
import os
import re
from cairn_test import check

APPENDS = "exec 5>>log; tail -f log 5>&- & i=0; while :; do i=$((i + 1)); echo line $i >&5; echo $i > count; sleep 0.1; done"
IN_PLACE = "exec 5<>table; i=0; while :; do i=$((i + 1)); echo line $i >&5; echo $i > count; sleep 0.1; done"


def counts(t):
    """The number that the program has come to; it is written anew all the time."""
    with open(os.path.join(t.work, "count"), encoding="utf-8") as file:
        return int(file.read().strip() or 0)


def goes_on(t):
    before = t.wait_until(lambda: counts(t), "the program to count")
    t.wait_until(lambda: counts(t) > before + 3, "the program to go on")


def lines(t, name):
    with open(os.path.join(t.work, name), errors="replace", encoding="utf-8") as file:
        return re.findall(r"line (\d+)", file.read())


def refused(t, *options):
    code, out, err = t.run([os.path.join(t.ckptdir, "restart.sh"), f"--ids={t.ids}", *options], timeout=60)
    check(code == 3, f"the restart ended with {code}: {out}{err}")
    return err


def test(t):
    t.launch(["bash", "-c", APPENDS], terminal="none")
    t.wait_until(lambda: os.path.exists(os.path.join(t.work, "count")), "the program to begin")
    goes_on(t)
    t.checkpoint("--kill")
    os.unlink(os.path.join(t.work, "log"))
    program = t.restart()
    said = t.text_of(program)
    check("log is gone: made anew, empty" in said, f"no note of the log: {said}")
    goes_on(t)
    check(len(lines(t, "log")) >= 3, "the log isn't written")
    # The one that reads it goes on with the new one where it had come to: at its end, when it is as long again.
    check(any(each["command"].startswith("tail") for each in t.members()), "tail has ended")
    t.pull_the_plug()
    os.unlink(os.path.join(t.work, "count"))

    t.launch(["bash", "-c", IN_PLACE], terminal="none")
    t.wait_until(lambda: os.path.exists(os.path.join(t.work, "count")), "the program to begin")
    goes_on(t)
    t.checkpoint("--kill")
    table = os.path.join(t.work, "table")
    os.rename(table, table + ".old")
    err = refused(t)
    check("table: No such file" in err and "--files=make" in err, f"the refusal says: {err}")
    check(not os.path.exists(table), "a restart that was refused has made the file")
    t.restart("--files=make")
    goes_on(t)
    check(lines(t, "table"), "the new file isn't written")
    t.pull_the_plug()
    os.unlink(table)
    program = t.restart(f"--path-map={table}=/dev/null")
    goes_on(t)
    check("/dev/null stands in" in t.text_of(program), f"no note: {t.text_of(program)}")
    check(not os.path.exists(table), "the file is there though /dev/null stands in for it")
    t.pull_the_plug()
    # The old one is back.
    os.rename(table + ".old", table)
    t.restart()
    goes_on(t)
