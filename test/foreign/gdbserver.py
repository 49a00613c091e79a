"""gdb and a program that gdbserver debugs for it: the two are connected by TCP, or by the pipes of `target remote |`. At a breakpoint, between two steps,
and while the program runs."""
# ci: exact
import importlib
import os
import socket
import sys

NEEDS = ["/usr/bin/gdb", "/usr/bin/gdbserver"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def debug(t, gdb, rounds):
    """From the program's first instruction to its end."""
    gdb.say("break work", r"Breakpoint 1 at")
    gdb.say("continue", r"Breakpoint 1, work \(n=1\)")
    n = 1
    for number in range(rounds):
        gdb.cycle(number)  # at a breakpoint
        gdb.say("print n", rf"\$\d+ = {n}\r?\n")
        gdb.say("next", r"\d+\s+for \(int i = 0")
        gdb.cycle(number)  # between two steps
        gdb.say("step", r"\d+\s+sum \+= i")
        gdb.say("finish", rf"Value returned is \$\d+ = {n * (n + 1) // 2}\r?\n")
        gdb.say("continue", rf"Breakpoint 1, work \(n={n + 1}\)")
        gdb.say("disable 1")
        gdb.say("continue", r"Continuing", prompt=False)
        gdb.cycle(number)  # it runs
        gdb.program.send("\x03")
        gdb.program.expect(r"received signal SIGINT.*\(gdb\) ")
        gdb.cycle(number)  # stopped by a signal, which the program isn't given
        gdb.say("enable 1")
        gdb.say("continue", r"Breakpoint 1, work \(n=\d+\)")
        gdb.say("up", r"#1 .*main")
        gdb.say("set var round = 1000")
        gdb.say("continue", r"Breakpoint 1, work \(n=1001\)")
        n = 1001
    gdb.say("delete")
    gdb.say("set var go_on = 0")
    gdb.say("continue", r"exited with code 07")
    gdb.program.send("quit\n")
    gdb.program.expect_exit(0)


def test(t):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    base = importlib.import_module("gdb")
    base.compiled(t, base.SOURCE)
    script = os.path.join(t.work, "both.sh")
    with open(script, "w") as file:
        file.write('gdbserver --once "$1" ./debugged > server.out 2>&1 &\nexec gdb -q -nx ./debugged\n')
    for kind in ("tcp", "pipe"):
        t.say(kind)
        port = free_port()
        gdb = base.Gdb(t, command=["sh", script, f"127.0.0.1:{port}"] if kind == "tcp" else ["gdb", "-q", "-nx", "./debugged"])
        gdb.say("set tcp auto-retry on")
        gdb.say(f"target remote 127.0.0.1:{port}" if kind == "tcp" else "target remote | gdbserver --once - ./debugged 2> server.out", "Remote debugging using")
        debug(t, gdb, t.rounds)
