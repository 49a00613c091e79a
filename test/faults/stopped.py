"""A coordinator or a capture that somebody has stopped: every client ends after 10 s and says who was waited for; programs stand
still for 13 s at most (docs/cairn.1), and go on."""
# ci: user (deadlines, which are the same whatever the ids)
import os
import signal
import time
from cairn_test import SLOW, check, processes
from cairn_test.ticking import Ticking

# Not kill and quit: what was asked of it is done when it goes on.
CLIENTS = (["checkpoint"], ["status"], ["list"], ["interval", "0"], ["launch", "--", "/usr/bin/true"],
           ["restart"])


def ends(t, arguments, number):
    err = os.path.join(t.folder, f"client.{number}.err")
    pid = processes.spawn([t.cairn, *arguments], env=t.env, cwd=t.work, stdin="/dev/null", stdout="/dev/null", stderr=err)
    return pid, err


def test(t):
    group = Ticking(t, children=1)
    good = group.checkpoint_works("before")
    coordinator = t.coordinator_pid()
    os.kill(coordinator, signal.SIGSTOP)
    began = time.monotonic()
    clients = [arguments + [good] if arguments == ["restart"] else arguments for arguments in CLIENTS]
    started = [ends(t, arguments, number) for number, arguments in enumerate(clients)]
    t.wait_until(lambda: all(processes.status_of(pid) is not None for pid, _ in started), "every client to end", 20)
    took = time.monotonic() - began
    for arguments, (pid, err) in zip(clients, started):
        code = os.waitstatus_to_exitcode(processes.status_of(pid))
        said = t._read(err)
        t.say(f"{arguments[0]}: {code} {said.strip()}")
        check(code == 6 and str(coordinator) in said, f"cairn {arguments}: {code}: {said}")
        check("stop" in said, f"cairn {arguments}: not what to do: {said}")
    # Some seconds for a busy machine to start eight programs.
    check(took < 14 * SLOW, f"10 s are documented, it took {took:.1f} s")
    os.kill(coordinator, signal.SIGCONT)
    group.all_tick("after the coordinator was stopped")
    group.checkpoint_works("after the coordinator was stopped")

    # The capture, in a phase in which the group stands still.
    t.must("quit")
    t.env["CAIRN_FAULT"] = "collect:hang"
    t.must("coordinator", "--daemon")
    del t.env["CAIRN_FAULT"]
    for stop in (True, False):
        pid, err = ends(t, ["checkpoint"], f"capture.{stop}")
        began = time.monotonic()
        t.wait_until(lambda: processes.capture(), "a capture")
        t.sleep(0.5)
        if stop:
            os.kill(processes.capture(), signal.SIGSTOP)
        t.wait_until(lambda: processes.status_of(pid) is not None, "the checkpoint to fail", 20)
        took = time.monotonic() - began
        said = t._read(err)
        t.say(f"capture {'stopped' if stop else 'hanging'}: {took:.1f} s {said.strip()}")
        check(os.waitstatus_to_exitcode(processes.status_of(pid)) == 6, f"a capture was stopped: {said}")
        check("cairn-capture" in said and (not stop or "stopped" in said), f"not who: {said}")
        check(took < 17 * SLOW, f"13 s are documented, it took {took:.1f} s")
        group.all_tick("after the capture was stopped")
    t.must("quit")
    t.must("coordinator", "--daemon")
    group.checkpoint_works("after a capture was stopped")
    # Stopped while nothing but the client waits for it: `checkpoint` itself has no limit of its own.
    group.survives_a_restart()
