"""A coordinator that a launch has started ends when nobody is left: after `checkpoint --kill`, after a program that ran a set-id one
outside. One that was started to stay stays. An interval that can't be kept is refused, or said."""
# ci: exact (deadlines, which are the same whatever the ids)
import os
import stat
import time
from cairn_test import check, processes


def pid_of(t, session):
    with open(os.path.join(t.env["CAIRN_RUNDIR"], session, "coordinator.pid")) as file:
        return int(file.read())


def runs(t, session, count=1):
    def there():
        code, out, _ = t.command("status", "--session", session, "--json")
        return code == 0 and '"running"' in out
    t.wait_until(there, f"session {session} to run")
    return pid_of(t, session)


def set_id_program():
    for path in ("/usr/bin/passwd", "/usr/bin/su", "/usr/bin/chsh", "/usr/bin/mount"):
        if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
            return path
    return None


def test(t):
    sleeping = ["/usr/bin/sleep", "600"]
    t.launch(sleeping, terminal="none", env={"CAIRN_SESSION": "killed"})
    waited = {"killed": runs(t, "killed")}
    t.must("checkpoint", "--kill", "--session", "killed")
    t.launch(sleeping, terminal="none", env={"CAIRN_SESSION": "ended"})
    waited["ended"] = runs(t, "ended")
    t.must("kill", "--session", "ended")
    program = set_id_program()
    if program:
        script = f"for i in 1 2 3; do {program} --help; done; ({program} --help); sleep 0.5; exec {program} --help"
        for n in range(3):
            t.launch(["/bin/sh", "-c", script], terminal="none", env={"CAIRN_SESSION": "foreign", "CAIRN_FOREIGN": "allow"})
        t.sleep(0.3)
        waited["foreign"] = pid_of(t, "foreign")
    else:
        t.skip_part("set-id program", "there is none")
    t.must("coordinator", "--daemon", "--session", "stays")
    stays = pid_of(t, "stays")
    t.launch(sleeping, terminal="none", env={"CAIRN_SESSION": "stays"})
    runs(t, "stays")
    t.must("checkpoint", "--kill", "--session", "stays")

    # Meanwhile: intervals.
    t.launch(sleeping, terminal="none", env={"CAIRN_SESSION": "interval"})
    runs(t, "interval")
    blocked = os.path.join(t.work, "a file")
    t.launch(sleeping, terminal="none", env={"CAIRN_SESSION": "interval", "CAIRN_CKPTDIR": blocked + "/below"})
    t.wait_until(lambda: "a file" in t.must("status", "--session", "interval"), "the folder to be set")
    with open(blocked, "w"):
        pass
    code, out, err = t.command("interval", "--session", "interval", "5")
    check(code == 1 and "can't be kept" in err and "a file" in err, f"an interval into a file: {code} {out}{err}")
    t.launch(sleeping, terminal="none",
             env={"CAIRN_SESSION": "interval", "CAIRN_INTERVAL": "0.2", "CAIRN_CKPTDIR": ""})
    t.wait_until(lambda: "not kept" in t.must("status", "--session", "interval"), "the status to tell of the interval")
    with open(os.path.join(t.env["CAIRN_RUNDIR"], "interval", "coordinator.log")) as file:
        check(file.read().count("is not kept") <= 2, "the log is full of it")
    t.must("kill", "--session", "interval")

    began = time.monotonic()
    for session, pid in waited.items():
        t.wait_until(lambda: not processes.stat(pid) or processes.stat(pid)[1] == "Z", f"the coordinator of {session} to end", 35)
        t.say(f"{session}: gone after {time.monotonic() - began:.1f} s")
    check(processes.stat(stays) is not None, "a coordinator that was started by hand has ended")
