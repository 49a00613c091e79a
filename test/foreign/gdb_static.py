"""gdb attached to a static program, which has no library of its own and was given one by an earlier checkpoint: the next step is right in each life. One that
gdb has started before any checkpoint has seen it is refused by name, and runs on."""
# ci: user
import importlib
import os
import sys

NEEDS = ["/usr/bin/gdb"]


def attached(t, base):
    script = os.path.join(t.work, "both.sh")
    with open(script, "w") as file:
        file.write("./debugged > out &\necho $! > pid\nexec gdb -q -nx\n")
    gdb = base.Gdb(t, command=["sh", script])
    t.checkpoint()
    with open(os.path.join(t.work, "pid")) as file:
        gdb.say(f"attach {int(file.read())}", r"Attaching to process")
    gdb.say("break work", r"Breakpoint 1 at")
    gdb.say("continue", r"Breakpoint 1, work")
    for number in range(t.rounds):
        gdb.cycle(number)
        gdb.say("next", r"for \(int i = 0")
        gdb.cycle(number)
        gdb.say("continue", r"Breakpoint 1, work")
    gdb.say("delete")
    gdb.say("set var go_on = 0")
    gdb.say("continue", r"exited with code 07")
    gdb.program.send("quit\n")
    gdb.program.expect_exit(0)


def started(t, base):
    gdb = base.Gdb(t)
    gdb.say("break work", r"Breakpoint 1 at")
    gdb.say("run", r"Breakpoint 1, work \(n=1\)")
    if t.dry:
        return
    status, _, text = t.command("checkpoint")
    assert status == 3 and "has no libcairn.so in it" in text and "while it is traced" in text, (status, text)
    gdb.say("continue", r"Breakpoint 1, work \(n=2\)")


def test(t):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    base = importlib.import_module("gdb")
    base.compiled(t, base.SOURCE, "-static")
    attached(t, base)
    started(t, base)
