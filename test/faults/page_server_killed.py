"""The page server of a lazy restart is killed again and again while pages are missing: the program finds its memory as it
was. The restart tool itself, which watches over it, is killed: the program ends with it, and nobody is left. Where two changes of memory can't be told apart any more
it may be ended, with a message that says so."""
# ci: exact user
import os
import random
import time
import signal
from cairn_test import Failure, Skip, check, processes
from cairn_test.serving import ask, begin, finish


def named(name):
    for pid in processes.descendants():
        found = processes.stat(pid)
        if found and found[0] == name:
            return pid
    return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return 1
    except ProcessLookupError:
        return 0


def test(t):
    if t.mode not in ("exact", "virtual"):
        raise Skip("lazy memory is root's")
    if tuple(int(x) for x in os.uname().release.split(".")[:2]) < (6, 17):
        raise Skip("lazy memory needs Linux 6.17")
    program = begin(t, "lazy_memory", "256")
    killed, given_up, rounds = 0, 0, 2 * t.rounds if t.soak else 2
    for number in range(rounds):
        t.checkpoint()
        t.pull_the_plug()
        program = t.restart("--lazy", name=f"restart {number + 1}", wait=False)
        before = killed
        also_tool = number % 2 == 0
        end = time.monotonic() + 30
        seen, tool_killed, last_seen = False, False, time.monotonic()
        while time.monotonic() < end and not (seen and time.monotonic() - last_seen > 0.2):
            if killed - before >= 40:
                break
            processes.reap()
            server = named("cairn-pages")
            if server is None:
                continue
            seen, last_seen = True, time.monotonic()
            time.sleep(random.random() * 0.02)
            killed += kill(server)
            state = t.status() if also_tool else None
            if state and state["state"] == "running" and named("cairn-pages"):
                t.say("the tool is killed")
                kill(program.pid)
                also_tool, tool_killed = False, True
        check(seen, "no page server was seen")
        try:
            if tool_killed:
                t.wait_until(lambda: not named("lazy_memory") and not named("cairn-pages"), "nobody to be left of the restart")
                t.pull_the_plug()
                program = t.restart("--lazy", name="restart, the tool lives")
            else:
                t.wait_restarted(program)
            t.say(f"round {number + 1}: page servers killed until now: {killed}")
            ask(t, program, number)
        except Failure:
            with open(program.errors) as file:
                if "not all of their memory can be brought back" not in file.read():
                    raise
            given_up += 1
            t.say("the program was ended with a message")
            t.pull_the_plug()
            program = t.restart("--eager", name="restart, eagerly")
            ask(t, program, f"{number} again")
    check(killed > 0, "no page server was ever killed")
    # That a program is ended is the exception: where it is the rule nothing of what is promised is tested.
    t.say(f"{given_up} of {rounds} times the program was ended")
    check(2 * given_up <= rounds, f"{given_up} of {rounds} times the program was ended, though its memory could be had")
    finish(t, program)
