"""The page server of a lazy restart is killed while pages are missing: the programs are ended with a message, never given zeros, and
nobody is left; an eager restart of the same checkpoint goes on. Its keeper is killed: nothing happens. The restart tool is killed:
the program ends with it, and nobody is left."""
# root: lazy memory is root's
# ci: exact
import os
import random
import time
import signal
from cairn_test import Skip, check, processes
from cairn_test.serving import ask, begin, finish

ENDED = "not all of their memory can be brought back"
HELPERS = ("cairn-pages", "pages-keeper")


def named(*names):
    for pid in processes.descendants():
        found = processes.stat(pid)
        if found and found[0] in names and found[1] != "Z":
            return pid
    return None


def gone(pid):
    processes.reap()
    found = processes.stat(pid)
    return not found or found[1] == "Z"


def kill_when_seen(t, name):
    """True if it was there. It goes away by itself when all pages have come."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        processes.reap()
        victim = named(name)
        if victim:
            time.sleep(random.random() * 0.05)
            try:
                os.kill(victim, signal.SIGKILL)
                return True
            except ProcessLookupError:
                return False
    check(False, f"{name} was never seen")


def kill_with_young_child(tool):
    """A helper that is born then finds another parent at its first step: the tool and its children share a processor, so that the
    child waits for its turn while the tool goes on."""
    end = time.monotonic() + 30
    os.sched_setaffinity(tool, {min(os.sched_getaffinity(0))})
    with open(f"/proc/{tool}/task/{tool}/children") as file:
        while not file.read().strip():
            check(time.monotonic() < end, "the restart tool has had no child")
            file.seek(0)
    os.kill(tool, signal.SIGKILL)


def nobody_is_left(t, program):
    t.wait_until(lambda: not named("lazy_memory", *HELPERS), "nobody to be left of the restart")
    t.pull_the_plug()


def lazily(t, name):
    t.checkpoint()
    t.pull_the_plug()
    return t.restart("--lazy", name=name, wait=False)


def server_killed(t, number):
    """Whether pages were still missing."""
    program = lazily(t, f"server killed {number}")
    if not kill_when_seen(t, "cairn-pages"):
        t.wait_restarted(program)
        return program, False
    t.wait_until(lambda: gone(program.pid) or not named(*HELPERS), "the programs to be ended, or complete")
    with open(program.errors) as file:
        ended = ENDED in file.read()
    if ended:
        nobody_is_left(t, program)
        program = t.restart("--eager", name=f"eagerly {number}")
    else:
        t.wait_restarted(program)
    ask(t, program, f"server killed {number}")
    return program, ended


def test(t):
    if t.mode not in ("exact", "virtual"):
        raise Skip("lazy memory is root's")
    if tuple(int(x) for x in os.uname().release.split(".")[:2]) < (6, 17):
        raise Skip("lazy memory needs Linux 6.17")
    t.env["CAIRN_INHERIT"] = "never"  # what its children have in common with it would come eagerly
    program = begin(t, "lazy_memory", "256")
    ended, wanted, tries = 0, 10 if t.soak else 2, 0
    while ended < wanted:
        tries += 1
        check(tries <= 5 * wanted, f"of {tries - 1} page servers only {ended} were killed in time")
        program, in_time = server_killed(t, tries)
        ended += in_time
    t.say(f"{ended} of {tries} page servers were killed while pages were missing, and the programs ended with a message")

    killed = False
    for number in range(5):
        program = lazily(t, f"keeper killed {number}")
        killed = kill_when_seen(t, "pages-keeper") or killed
        t.wait_restarted(program)
        ask(t, program, f"keeper killed {number}")
        if killed:
            break
    check(killed, "the keeper had always gone before it was killed")

    for number in range(20 if t.soak else 8):
        program = lazily(t, f"tool killed {number} at the birth of a helper")
        kill_with_young_child(program.pid)
        nobody_is_left(t, program)
        program = t.restart("--eager", name=f"eagerly behind tool {number}")
        ask(t, program, f"behind tool {number}")

    program = lazily(t, "tool killed")
    t.wait_until(lambda: (t.status() or {}).get("state") == "running", "the programs to run")
    os.kill(program.pid, signal.SIGKILL)
    nobody_is_left(t, program)
    program = t.restart("--lazy", name="the tool lives")
    ask(t, program, "the tool lives")
    finish(t, program)
