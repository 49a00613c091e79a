"""Cleaners of /tmp: the coordinator holds a lock on the session's folder and the one above, which systemd-tmpfiles respects. That
one, where it is installed, clears everything around them and touches nothing in them."""
import fcntl
import os
import shutil
import signal
from cairn_test import check, processes
from cairn_test.ticking import Ticking


def is_locked(folder):
    """As a cleaner asks: nobody else may have it."""
    asking = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(asking, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(asking)


def inodes(*folders):
    return {path: os.lstat(path).st_ino for folder in folders for path in [folder, *(each.path for each in os.scandir(folder))]}


def clear(t, everything, place, folder):
    """Whatever its age."""
    # What is no session's, shaped like one.
    other = os.path.join(everything, "other", "default")
    os.makedirs(other)
    for path in (os.path.join(other, "region"), os.path.join(everything, "file")):
        with open(path, "w"):
            pass
    configuration = os.path.join(t.folder, "clean.conf")
    with open(configuration, "w") as file:
        file.write(f"e {everything} - - - 0\n")
    code, out, err = t.run(["systemd-tmpfiles", "--clean", configuration])
    check(code == 0, f"systemd-tmpfiles: {code} {out}{err}")
    check(os.listdir(everything) == [os.path.basename(place)], f"it has left {os.listdir(everything)}")


def test(t):
    everything = os.path.join(t.folder, "tmp")
    place = os.path.join(everything, "cairn")
    folder = os.path.join(place, t.name)
    os.mkdir(everything)
    t.env["CAIRN_RUNDIR"] = place
    group = Ticking(t, children=1)
    coordinator = t.coordinator_pid()
    for each in (place, folder):
        check(is_locked(each), f"{each} isn't locked")
    if shutil.which("systemd-tmpfiles"):
        group.checkpoint_works("before anything is cleared")
        before = inodes(place, folder)
        check({"region", "socket", "lock"} <= {os.path.basename(path) for path in before}, f"what is there: {before}")
        clear(t, everything, place, folder)
        check(inodes(place, folder) == before, f"there was {sorted(before)}, there is {sorted(inodes(place, folder))}")
        group.checkpoint_works("after everything was cleared")
        check(t.coordinator_pid() == coordinator, "another coordinator is there")
    else:
        t.skip_part("systemd-tmpfiles", "isn't installed")
    # Who clears when nobody uses it isn't kept from it.
    os.kill(coordinator, signal.SIGKILL)
    t.wait_until(lambda: not processes.stat(coordinator) or processes.stat(coordinator)[1] == "Z", "the coordinator to end")
    t.wait_until(lambda: not is_locked(folder) and not is_locked(place), "the locks to go with the coordinator", 5)
    # And the next one, which finds the programs, locks again.
    t.must("coordinator", "--daemon")
    for each in (place, folder):
        check(is_locked(each), f"{each} isn't locked by the second coordinator")
    group.checkpoint_works("with the second coordinator")
    t.must("quit")
    t.wait_until(lambda: not is_locked(place), "the place to be free after quit", 5)
