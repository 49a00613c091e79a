"""cairn launch and cairn restart as a container's first process: the program is its child, gets the signals that the container is sent,
finds no children that it never had, leaves no orphan unreaped, and its exit code is the container's; before and after a restart."""
# timeout: 120
import os
import re
import signal
import subprocess
from cairn_test import check
from cairn_test.containers import Way, generation

PROGRAM = r"""
import os, signal, sys, time
def ended(number, frame):
    with open("heard", "a") as file:
        file.write("TERM\n")
    sys.exit(7)
signal.signal(signal.SIGTERM, ended)
try:
    os.waitpid(-1, os.WNOHANG)
    sys.exit("a child that it never had")
except ChildProcessError:
    pass
if os.getpid() == 1:
    sys.exit("it is the first process")
while True:
    if os.fork() == 0:  # whose child is an orphan at once
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
    with open("alive", "a") as file:
        file.write(".")
    time.sleep(0.05)
"""


def box(t):
    """It shares all files with the machine: its sessions' folder is the test's own."""
    return Way(t, lambda argv, environment: ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                             'cd "$0" && exec env "$@"', t.work, f"CAIRN_RUNDIR={t.folder}/run", *argv])


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def zombies_below(init):
    listed = subprocess.run(["ps", "-o", "stat=", "--ppid", str(init)], capture_output=True, text=True).stdout.split()
    return sum(state.startswith("Z") for state in listed)


def lives(t, container):
    """It runs, and its orphans are reaped."""
    before = size(f"{t.work}/alive")
    container.wait_for(lambda: size(f"{t.work}/alive") > before + 10, "ten steps of the program")
    t.wait_until(lambda: zombies_below(container.init()) <= 1, "orphans to be reaped")  # one may just have ended


def hears(t, container, code):
    os.kill(container.init(), signal.SIGTERM)
    t.wait_until(lambda: container.ended() is not None, "the container to end", 20)
    check(container.ended() == code, f"it ended with {container.ended()} and not {code}: {container.text()}")


def test(t):
    way = box(t)
    launch = [t.cairn, "launch", "--ckptdir", t.ckptdir]
    for argv, code in ((["sh", "-c", "exit 3"], 3), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127)):
        short = way.start([*launch, "--session", "short", *argv])
        t.wait_until(lambda: short.ended() is not None, "a short program to end")
        check(short.ended() == code, f"{argv} ended with {short.ended()} and not {code}: {short.text()}")
    hears(t, started(t, way.start([*launch, "--session", "sleep", "sh", "-c", "echo > begun; exec sleep 1000"]), "begun"), 143)

    container = way.start([*launch, "--interval", "0.5", "/usr/bin/python3", "-c", PROGRAM])
    lives(t, container)
    container.wait_for(lambda: generation(t.ckptdir), "a checkpoint")
    container.kill()
    for _ in range(t.rounds):
        container = way.start([t.cairn, "restart", t.ckptdir])
        # A child of it, at whose end the checkpoint came, goes on as well.
        container.wait_for(lambda: re.search(r"process(es)? .* go(es)? on ", container.text()), "the restart")
        lives(t, container)
        hears(t, container, 7)
    with open(f"{t.work}/heard") as file:
        check(file.read() == "TERM\n" * t.rounds, "a signal came twice, or not at all")


def started(t, container, file):
    container.wait_for(lambda: os.path.exists(f"{t.work}/{file}"), "the program to begin")
    return container
