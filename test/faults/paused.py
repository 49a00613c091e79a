"""`cairn restart --pause`: all processes and threads stand still before their first instruction until the restart gets SIGCONT,
and nobody in the computation has seen a child that was stopped. A debugger may be attached meanwhile."""
# ci: user
import os
import signal
from cairn_test import check, processes

# A shell that waits for its child as an interactive one does, and a child of several threads that count.
CHILD = r"""
import threading, time, os
def count(name):
    with open(name, "w") as file:
        for number in range(400):
            file.write(f"{number}\n"); file.flush(); time.sleep(0.02)
threads = [threading.Thread(target=count, args=(f"count-{i}",)) for i in range(3)]
[each.start() for each in threads]
[each.join() for each in threads]
"""
SCRIPT = r"""
import os, sys
child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "child.py"])
while True:
    try:
        pid, status = os.waitpid(child, os.WUNTRACED)
    except InterruptedError:
        continue
    if os.WIFSTOPPED(status):
        print("STOPPED CHILD", flush=True)
        continue
    print("DONE", status, flush=True)
    break
"""


def test(t):
    counts = [os.path.join(t.work, f"count-{i}") for i in range(3)]
    for name, text in (("child.py", CHILD), ("script.py", SCRIPT)):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text)
    t.launch(["/usr/bin/python3", "script.py"])
    t.wait_until(lambda: all(os.path.exists(each) and os.path.getsize(each) > 20 for each in counts), "the first lines")
    for number in range(t.rounds):
        t.checkpoint("--kill")
        t.pull_the_plug()
        sizes = [os.path.getsize(each) for each in counts]
        program = t.restart("--pause", name=f"restart {number + 1}", wait=False)

        def said():
            with open(program.errors) as file:
                return file.read()
        t.wait_until(lambda: "paused" in said(), "the restart to say that it is paused")
        check("gdb -p" in said() and f"kill -CONT {program.pid}" in said(), said())
        t.sleep(0.3)
        check(sizes == [os.path.getsize(each) for each in counts], "somebody has made a step")
        members = t.members()
        check(len(members) == 2 and all(each["state"] == "stopped" for each in members), f"not all are stopped: {members}")
        for each in members:
            tasks = os.listdir(f"/proc/{each['real']}/task")
            for task in tasks:
                with open(f"/proc/{each['real']}/task/{task}/stat") as file:
                    check(file.read().rsplit(")", 1)[1].split()[0] == "T", f"thread {task} of {each['real']} isn't stopped")
        os.kill(program.pid, signal.SIGCONT)
        t.wait_until(lambda: all(os.path.getsize(each) > size for each, size in zip(counts, sizes)), "more lines")
        t.say(f"round {number + 1}: stood still, went on")
    # A signal that is meant for the programs lets them go on, and reaches them.
    t.checkpoint("--kill")
    t.pull_the_plug()
    program = t.restart("--pause", name="restart that is ended", wait=False)
    t.wait_until(lambda: "paused" in open(program.errors).read(), "the restart to say that it is paused")
    os.kill(program.pid, signal.SIGTERM)
    status = program.exit_status()
    check(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM, f"SIGTERM: {processes.describe_status(status)}")
    t.pull_the_plug()
    program = t.restart("--pause", name="last restart", wait=False)
    t.wait_until(lambda: "paused" in open(program.errors).read(), "the restart to say that it is paused")
    os.kill(program.pid, signal.SIGCONT)
    program.expect("DONE 0")
    program.expect_exit(0)
    check(b"STOPPED" not in program.terminal.text, "a parent has seen its child stopped")
    for each in counts:
        with open(each) as file:
            check(file.read() == "".join(f"{i}\n" for i in range(400)), f"{each}: lines lost or doubled")
