"""A program that takes part (cairn.h, cairn.py): it asks for a checkpoint and learns that it has come back, forbids one for a section,
has hooks before, after and on restart, refuses; it runs without cairn as well."""
# ci: exact
import contextlib
import os
import signal
import time
from cairn_test import check, processes
from cairn_test.events import Events

PYTHON = r"""
import os, sys, threading, time
sys.path.insert(0, os.environ["CAIRN_TEST_LIB"])
import cairn
said = []
cairn.hooks(before=lambda: os.write(1, b"before\n") and None, after=lambda what: os.write(1, b"after %d\n" % what),
            restarted=lambda: os.write(1, b"restarted\n"))
os.write(1, b"enabled %d\n" % cairn.enabled())
with cairn.forbidden():
    with cairn.forbidden():
        try:
            cairn.checkpoint()
        except cairn.Error as error:
            os.write(1, b"busy %d\n" % (error.code == cairn.BUSY))
number = 0
while not os.path.exists("stop"):
    if os.path.exists("now"):
        os.unlink("now")
        try:
            os.write(1, b"checkpoint %d\n" % cairn.checkpoint(60))
        except cairn.Error as error:
            os.write(1, b"error %d\n" % error.code)
    if os.path.exists("section"):
        with cairn.forbidden():
            os.write(1, b"in section\n")
            while os.path.exists("section"):
                time.sleep(0.01)
    time.sleep(0.005)
os.write(1, b"end\n")
"""


def write(t, name):
    with open(os.path.join(t.work, name), "w"):
        pass


def c_program(t):
    """All of it once, and three restarts of what it has asked for."""
    program = t.launch([os.path.join(t.build, "bin", "part_worker"), "150"])
    program.expect("ENABLED 1")
    program.expect(r"BEFORE 50\r?\n")
    program.expect(r"AFTER original 50\r?\n")
    program.expect(r"CHECKPOINT 0\r?\n")
    program.expect(r"DONE 150\r?\n")
    program.expect_exit(0)
    for number in range(t.rounds):
        t.pull_the_plug(number % 2 == 1)
        program = t.restart(name=f"restart {number + 1}")
        program.expect(r"RESTARTED 50\r?\n")
        program.expect(r"CHECKPOINT 1\r?\n")
        program.expect(r"DONE 150\r?\n")
        program.expect_exit(0)
    t.pull_the_plug()


def sections(t):
    """Checkpoints of others, at any moment: a hook refuses where it finds the section's two files to differ."""
    program = t.launch([os.path.join(t.build, "bin", "part_worker"), "1000000"])
    program.expect("ENABLED 1")
    for number in range(t.rounds):
        for _ in range(3):
            t.sleep(0.2 * t.random.random())
            t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        program = t.restart(name=f"sections: restart {number + 1}", wait=False)
        program.expect("RESTARTED")
    write(t, "refuse")
    code, _, err = t.command("checkpoint")
    check(code == 3 and "part_worker" in err and "the file refuse is there" in err, f"a hook refuses: {code}: {err}")
    program.expect("AFTER given up")
    os.unlink(os.path.join(t.work, "refuse"))
    t.checkpoint()
    program.expect("AFTER original")
    t.must("kill")
    program.exit_status()
    t.pull_the_plug()


def python_program(t):
    env = {"CAIRN_TEST_LIB": os.path.join(t.build, "lib")}
    program = t.launch(["/usr/bin/python3", "-c", PYTHON], env=env)
    program.expect("enabled 1")
    program.expect("busy 1")
    for number in range(t.rounds):
        write(t, "now")
        for what in ("before", "after 0", "checkpoint 0"):
            program.expect(what + r"\r?\n")
        # Someone else's checkpoint waits for the end of a section.
        write(t, "section")
        program.expect("in section")
        command = t.begin("checkpoint", "-q")
        t.sleep(0.7)
        check(command.code() is None, "a checkpoint was taken in a section")
        os.unlink(os.path.join(t.work, "section"))
        t.wait_until(lambda: command.code() is not None, "the checkpoint to end")
        check(command.code() == 0, f"a checkpoint behind a section: {command.code()}")
        program.expect(r"after 0\r?\n")
        write(t, "now")
        program.expect(r"checkpoint 0\r?\n")
        t.pull_the_plug(number % 2 == 1)
        program = t.restart(name=f"python: restart {number + 1}")
        program.expect(r"restarted\r?\n")
        program.expect(r"checkpoint 1\r?\n")
    if t.soak or t.mode == "exact":
        write(t, "section")
        program.expect("in section")
        begun = time.monotonic()
        code, _, err = t.command("checkpoint", timeout=90)
        check(code == 3 and "forbids checkpoints" in err and "python3" in err, f"a section without an end: {code}: {err}")
        t.say(f"after {time.monotonic() - begun:.0f} s: {err.strip()}")
        os.unlink(os.path.join(t.work, "section"))
    write(t, "stop")
    program.expect(r"end\r?\n")
    program.expect_exit(0)
    os.unlink(os.path.join(t.work, "stop"))


def killed_capture(t):
    """Who is ready when the capture is killed goes on."""
    program = t.launch([os.path.join(t.build, "bin", "part_worker"), "1000000"])
    program.expect("ENABLED 1")
    for phase in ("hooks", "objects", "write"):
        events = Events(t)
        events.ask({"verb": "checkpoint"})
        reached = events.wait_phase(phase)
        victim = processes.capture() if reached else None
        if victim:
            with contextlib.suppress(ProcessLookupError):  # it may just have come to its end
                os.kill(victim, signal.SIGKILL)
        end = events.wait_end()
        events.close()
        if phase != "hooks":  # it may have been killed before it could ask anybody
            program.expect("BEFORE")
            program.expect("AFTER")
        t.say(f"killed in {phase}: {end['event']}")
    counts = lambda: [program.terminal.text.count(word) for word in (b"BEFORE", b"AFTER")]
    t.wait_until(lambda: counts()[0] == counts()[1] >= 2, "all who were ready to be told how it ended")
    t.must("kill")
    program.exit_status()
    t.programs.remove(program)


def without_cairn(t):
    program = t.launch([os.path.join(t.build, "bin", "part_worker"), "30"], native=True)
    program.expect("ENABLED 0")
    program.expect(r"CHECKPOINT -20\r?\n")
    program.expect(r"DONE 30\r?\n")
    program.expect_exit(0)
    t.programs.remove(program)


def test(t):
    for each in (without_cairn, c_program, sections, python_program, killed_capture):
        each(t)
        t.say(f"{each.__name__}: good")
