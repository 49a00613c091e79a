"""A restart from the shell that leads the terminal's session, and one that leads it: job control, Ctrl-C, resize and
hang-up reach the programs in both. A restart in the background leaves the shell's terminal as it is."""
# ci: exact user
import os
import signal
import termios
from cairn_test import check, processes

PROGRAM = r"""
import os, signal, sys, time
def say(text):
    try:
        os.write(1, text.encode() + b"\n")
    except OSError:
        pass  # the terminal has gone: SIGCONT follows SIGHUP, and its handler may run amid that one's
def hung_up(*_):
    open("hung.up", "w").close()
    os._exit(9)
signal.signal(signal.SIGWINCH, lambda *_: say("size %d" % os.get_terminal_size().columns))
signal.signal(signal.SIGCONT, lambda *_: say("continued"))
signal.signal(signal.SIGHUP, hung_up)
def interrupted(*_):
    say("interrupted")
    os._exit(42)
signal.signal(signal.SIGINT, interrupted)
say("READY")
try:
    for line in iter(sys.stdin.readline, ""):
        say("read " + line.strip())
except OSError:
    pass
for turn in range(500):  # a reader sees the terminal's end before the signal comes
    time.sleep(0.01)
"""


class Shell:
    """An interactive bash that leads a terminal's session; not a program of the computation."""

    def __init__(self, t):
        self.t = t
        self.bash = t.launch(["bash", "--norc", "--noprofile", "-i"], native=True, env={"HISTFILE": "/dev/null"})
        self.bash.send("bind 'set enable-bracketed-paste off'; PS1='PROM''PT> '\n")
        self.bash.expect(r"PROMPT> ")

    def type(self, line, *answers):
        self.bash.send(line + "\n")
        for answer in answers:
            self.bash.expect(answer)

    def export(self):
        for name, value in self.t.env.items():
            if name.startswith("CAIRN_"):
                self.type(f"export {name}='{value}'", r"PROMPT> ")


def hung_up(t):
    return os.path.exists(os.path.join(t.work, "hung.up"))


def running(t):
    code, out, _ = t.command("status", "--json")
    return code == 0 and '"running"' in out


def reading():
    """Whether the program sleeps in its read(0). Python acts on a signal between two of its own instructions, and one that
    comes just before the system call waits for the next line that is typed."""
    for pid in processes.descendants():
        try:
            with open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/syscall") as call:
                if line.read().endswith("program.py\0") and call.read().startswith("0 0x0 "):
                    return True
        except OSError:
            pass  # it has ended
    return False


def at_rest(t):
    t.wait_until(reading, "the program to sleep in its read")


def alive(t, shell, how):
    """The program reads what is typed, and sees a change of the terminal's size."""
    shell.send("hello\n")
    shell.expect(r"read hello")
    at_rest(t)
    shell.terminal.resize(30, 100)
    shell.expect(r"size 100")
    at_rest(t)
    shell.terminal.resize(24, 80)
    shell.expect(r"size 80")
    at_rest(t)
    t.say(f"{how}: reads, and sees the size")


def stopped_by_kill(t, shell, how):
    """Somebody stops the restart tool, which is all that he knows of the job."""
    tools = [pid for pid in processes.descendants() if (processes.stat(pid) or [""])[0] == "cairn-restart"]
    check(len(tools) >= 1, "no restart tool runs")
    for pid in tools:
        os.kill(pid, signal.SIGTSTP)
    shell.bash.expect(r"\[1\]\+ +Stopped.*PROMPT> ")
    shell.type("stty -a | tr ' ;' '\\n\\n' | grep -E '^-?(icanon|echo)$' | xargs", r"(?<!-)icanon (?<!-)echo\r?\n.*PROMPT> ")
    shell.type("fg", r"continued" if how.startswith("led by the shell") else r"cairn")
    alive(t, shell.bash, f"{how}, after kill -TSTP and fg")


def restarted(t, shell, stops, how):
    """The line for the restart has been typed into the shell."""
    bash = shell.bash
    t.wait_until(lambda: running(t), f"{how}: the program to run")
    t.sleep(0.3)
    alive(t, bash, how)
    if stops:
        for turn in range(2):
            bash.send("\x1a")
            bash.expect(r"\[1\]\+ +Stopped.*PROMPT> ")
            shell.type("echo at the $((6*7))", r"at the 42.*PROMPT> ")
            shell.type("fg", r"continued")
            alive(t, bash, f"{how}, after Ctrl-Z and fg")
    stopped_by_kill(t, shell, how)
    bash.send("\x03")
    bash.expect(r"interrupted.*PROMPT> ")
    shell.type("echo code $?", r"code 42\r?\n.*PROMPT> ")
    t.say(f"{how}: Ctrl-C")


def in_the_background(t, shell, restart):
    """A job in the background leaves the terminal's modes to the shell, which has set them to read its next line."""
    def edited():
        return termios.tcgetattr(shell.bash.terminal.master)[3] & (termios.ICANON | termios.ECHO) == 0
    shell.type("", r"PROMPT> ")
    t.wait_until(edited, "the shell to read a line")
    # The program reads from the terminal: it is stopped for that as soon as it runs, and the restart with it.
    shell.type(f"{restart} &", r"PROMPT> ")
    t.wait_until(lambda: running(t), "in the background: the program to run")
    t.sleep(0.5)
    check(edited(), "a restart in the background has changed the modes of the shell's terminal")
    shell.type("", r"\[1\]\+ +Stopped.*PROMPT> ")
    shell.type("fg", r"continued")
    alive(t, shell.bash, "led by the shell, restarted in the background, after fg")
    shell.bash.send("\x03")
    shell.bash.expect(r"interrupted.*PROMPT> ")


def hang_up(t, terminal, how):
    t.wait_until(lambda: running(t), f"{how}: the program to run")
    t.sleep(0.3)
    terminal.hang_up()
    t.wait_until(lambda: hung_up(t), f"{how}: the program to see the hang-up", 10)
    os.unlink(os.path.join(t.work, "hung.up"))
    t.wait_until(lambda: not running(t), f"{how}: the program to end", 10)
    t.say(f"{how}: hang-up")


def test(t):
    script = os.path.join(t.ckptdir, "restart.sh")
    with open(os.path.join(t.work, "program.py"), "w") as file:
        file.write(PROGRAM)
    restart = f"{script} --ids={t.ids} --quiet"
    for led_by in ("the shell", "the program"):
        if led_by == "the shell":
            first = Shell(t)
            first.export()
            first.type(f"{t.cairn} launch /usr/bin/python3 program.py", r"READY")
        else:
            program = t.launch(["/usr/bin/python3", "program.py"])
            program.expect(r"READY")
        t.checkpoint()
        t.pull_the_plug()

        shell = Shell(t)
        shell.export()
        shell.type(restart)
        restarted(t, shell, led_by == "the shell", f"led by {led_by}, restarted from a shell")
        if led_by == "the shell":
            in_the_background(t, shell, restart)
        shell.type(restart)
        hang_up(t, shell.bash.terminal, f"led by {led_by}, restarted from a shell")

        leader = t.restart()
        alive(t, leader, f"led by {led_by}, restarted as the terminal's leader")
        leader.send("\x03")
        leader.expect(r"interrupted")
        leader.expect_exit(42)
        leader = t.restart()
        hang_up(t, leader.terminal, f"led by {led_by}, restarted as the terminal's leader")
        leader.exit_status(10)
