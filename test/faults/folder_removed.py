"""The session's folder is removed while programs run: it is noticed, made again and said; checkpoints, interval checkpoints, births
and execs go on, nobody starts a second coordinator, and where only the folder was removed the next coordinator finds everybody."""
# ci: user
import os
import shutil
import signal
from cairn_test import check, processes
from cairn_test.ticking import Ticking

# Executes a child four times a second: who can't find the region runs outside.
BIRTHS = "n=0; while :; do n=$((n + 1)); sh -c 'echo $LD_PRELOAD > preload.new; mv preload.new preload; exec sleep 0.2'; echo $n > births; done"


def births(t):
    try:
        with open(os.path.join(t.work, "births")) as file:
            return int(file.read() or 0)
    except OSError:
        return 0


def goes_on(t, group, coordinator, when):
    def same():
        found = t.status()
        return found and found["pid"] == coordinator
    t.wait_until(same, f"the same coordinator to answer {when}", 10)
    group.all_tick(when)
    before = births(t)
    t.wait_until(lambda: births(t) >= before + 3, f"births {when}", 10)
    # The looper, its child and the group: who was born since is a member.
    t.wait_until(lambda: {each["name"] for each in t.members()} >= {"sh", "sleep", "python3"}, f"the newborn to be members {when}", 10)
    group.checkpoint_works(when)
    other = t.launch(["/usr/bin/sleep", "60"], terminal="none", name=f"newcomer {when}")
    t.wait_until(lambda: any(each["pid"] == other.pid for each in t.members()), f"a newcomer to be a member {when}", 10)
    check(t.status()["pid"] == coordinator, f"a second coordinator {when}")
    os.kill(other.pid, signal.SIGKILL)
    other.exit_status()
    t.programs.remove(other)


def keeps_an_interval(t):
    """One is refused that the last checkpoint was too slow for, as it may be on a busy machine."""
    kept = t.command("interval", "1")[0] == 0
    if not kept:
        t.checkpoint()
    return kept


def log(t):
    with open(os.path.join(t.env["CAIRN_RUNDIR"], t.name, "coordinator.log")) as file:
        return file.read()


def test(t):
    group = Ticking(t, children=1)
    t.launch(["/bin/sh", "-c", BIRTHS], terminal="none", name="births")
    t.wait_members(4)
    coordinator = t.coordinator_pid()
    folder = os.path.join(t.env["CAIRN_RUNDIR"], t.name)
    group.checkpoint_works("before")
    for round, name in enumerate(("socket", "region", "lock")):
        os.unlink(os.path.join(folder, name))
        goes_on(t, group, coordinator, f"after {name} was removed")
    shutil.rmtree(folder, ignore_errors=True)  # it may be back before its last file has gone
    goes_on(t, group, coordinator, "after the folder was removed")
    check("is made again" in log(t), f"nothing was said: {log(t)}")
    os.rename(folder, folder + ".away")
    goes_on(t, group, coordinator, "after the folder was renamed")
    shutil.rmtree(folder + ".away")
    # The next coordinator has the same file.
    os.kill(coordinator, signal.SIGKILL)
    t.wait_until(lambda: not processes.stat(coordinator) or processes.stat(coordinator)[1] == "Z", "the coordinator to end")
    t.must("coordinator", "--daemon")
    coordinator = t.coordinator_pid()
    goes_on(t, group, coordinator, "with another coordinator")
    # Everything is gone, the spare name too (a logout): many launch at once, and none starts a second one.
    t.wait_until(lambda: keeps_an_interval(t), "an interval to be kept", 30)
    shutil.rmtree(t.env["CAIRN_RUNDIR"], ignore_errors=True)
    newcomers = [t.launch(["/usr/bin/sleep", "60"], terminal="none", name=f"newcomer {n}") for n in range(5)]
    # Until the folder is there again nobody answers.
    t.wait_until(lambda: t.status() and {p.pid for p in newcomers} <= {each["pid"] for each in t.members()},
                 "the newcomers to be members", 15)
    check(t.status()["pid"] == coordinator, "a second coordinator was started")
    alive = [pid for pid in processes.descendants() if (processes.stat(pid) or ("",))[0].startswith("cairn-coordinat")]
    check(alive == [coordinator], f"coordinators: {alive}")
    before = t.latest()
    t.wait_until(lambda: t.latest() != before, "a checkpoint of the interval", 10)
    t.must("interval", "0")
    for program in newcomers:
        os.kill(program.pid, signal.SIGKILL)
        program.exit_status()
        t.programs.remove(program)
    goes_on(t, group, coordinator, "after the place of all sessions was removed")
    group.survives_a_restart()
