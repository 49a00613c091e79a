"""Where people really start things: launched one way, saved, killed, restarted another way, twice in a row. The output
is an undisturbed run's, session, group and parent are right, and what ends the launched program ends the restart.

By name, some of it only: starting.py LAUNCHER/RESTARTER ... | signals | early"""
# ci: exact
import os
import shutil
import signal
import socket
import subprocess
import time
from cairn_test import SLOW, Failure, Terminal, check, processes

# Counts, into its standard output, and says how far it is in a file; goes on until it is told to end.
PROGRAM = r"""
import os, time
at, progress = 0, os.open("progress", os.O_WRONLY | os.O_CREAT, 0o644)
while not os.path.exists("stop"):
    os.write(1, b"%d\n" % at)
    os.pwrite(progress, b"%20d %10d" % (at, os.getpid()), 0)
    at += 1
    time.sleep(0.01)
"""
# Says which signals it gets.
LISTENER = r"""
import os, signal, time
log = os.open("heard", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
progress = os.open("progress", os.O_WRONLY | os.O_CREAT, 0o644)
def hear(number, frame):
    os.write(log, b"%d " % number)
for number in (1, 2, 3, 10, 12, 14, 15, 18, 40):
    signal.signal(number, hear)
while not os.path.exists("stop"):
    os.pwrite(progress, b"%20d %10d" % (time.monotonic_ns(), os.getpid()), 0)
    time.sleep(0.01)
"""
BASH = ["bash", "--norc", "--noprofile", "-i"]

# CMD is the launch (RS the restart). A list is run as it is, without a terminal; a text is typed into an interactive
# shell on a terminal. "cron": with the environment that cron gives.
LAUNCHERS = {
    "exec": ["sh", "-c", "exec CMD > out"],
    "script": ["sh", "-c", "CMD > out; true"],
    "script that has ended": ["sh", "-c", "CMD > out & exit"],
    "script in the background": ["bash", "-c", "CMD > out & wait; true"],
    "nohup": ["bash", "-c", "nohup CMD > out & exit"],
    "setsid": ["bash", "-c", "setsid CMD > out & exit"],
    "setsid -f": ["bash", "-c", "setsid -f CMD > out; sleep 1000"],
    "subshell": ["bash", "-c", "(CMD > out &); sleep 1000"],
    "bash -m": ["bash", "-c", "set -m; CMD > out & sleep 1000"],
    "bash -m that has ended": ["bash", "-c", "set -m; CMD > out & disown; exit"],
    "zsh": ["zsh", "-fc", "CMD > out &! sleep 1000"],
    "dash": ["dash", "-c", "CMD > out & sleep 1000"],
    "cron": ["cron", "/bin/sh", "-c", "CMD > out"],
    "cron's background": ["cron", "/bin/sh", "-c", "CMD > out & exit"],
    "at": ["cron", "/bin/sh", "-c", "echo 'CMD > out' | sh"],
    "standard descriptors closed": ["bash", "-c", "CMD > out <&- 2>&- & exit"],
    "ssh": ["sockets", "bash", "-c", "CMD"],
    "timeout": ["bash", "-c", "timeout 1000 CMD > out; true"],
    "timeout --foreground": ["bash", "-c", "timeout --foreground 1000 CMD > out; true"],
    "time": ["bash", "-c", "time CMD > out; true"],
    "xargs": ["bash", "-c", "echo out | xargs -I% sh -c 'CMD > %'"],
    "make": ["bash", "-c", "printf 'all:\\n\\tCMD > out\\n' > Makefile; make"],
    "parallel": ["bash", "-c", "parallel --will-cite ::: 'CMD > out'"],
    "script(1)": ["bash", "-c", "script -qc 'CMD > out' /dev/null"],
    "unbuffer": ["bash", "-c", "unbuffer CMD"],
    "tmux": ["bash", "-c", "tmux -S sock new-session -d 'CMD > out'; sleep 1000"],
    "screen": ["bash", "-c", "SCREENDIR=$PWD/scr; export SCREENDIR; mkdir -m 700 scr; screen -dmS x sh -c 'CMD > out'; sleep 1000"],
    "su": ["bash", "-c", "su -m root -c 'CMD > out'; true"],
    "sudo": ["bash", "-c", "sudo -n --preserve-env CMD > out; true"],
    "runuser": ["bash", "-c", "runuser -u root -- CMD > out; true"],
    "terminal": "CMD",
    "terminal, output to a file": "CMD > out",
    "terminal, background": "CMD > out &",
    "terminal, background on it": "CMD &",
    "terminal, subshell": "(CMD > out &)",
    "terminal, subshell on it": "(CMD &)",
    "terminal, disown": "CMD > out & disown",
    "terminal, nohup": "nohup CMD > out &",
    "terminal, setsid": "setsid CMD > out &",
    "terminal, setsid on it": "setsid CMD &",
    "terminal, script that has ended": "sh -c 'CMD > out &'",
    "terminal, pipeline": "CMD | cat > out",
}
RESTARTERS = {
    "exec": ["sh", "-c", "exec RS"],
    "script": ["sh", "-c", "RS; true"],
    "script in the background": ["bash", "-c", "RS & sleep 1000"],
    "script that has ended": ["bash", "-c", "RS & exit"],
    "subshell": ["bash", "-c", "(RS &); sleep 1000"],
    "bash -m": ["bash", "-c", "set -m; RS & sleep 1000"],
    "cron": ["cron", "/bin/sh", "-c", "RS"],
    "setsid": ["bash", "-c", "setsid RS; true"],
    "timeout": ["bash", "-c", "timeout 1000 RS; true"],
    "xargs": ["bash", "-c", "echo --quiet | xargs RS"],
    "make": ["bash", "-c", "printf 'all:\\n\\tRS\\n' > Makefile; make"],
    "standard descriptors closed": ["bash", "-c", "RS <&- >&- 2>&-; echo $? > code"],
    "terminal": "RS",
    "terminal, background": "RS &",
    "terminal, subshell": "(RS &)",
    "terminal, script": "sh -c 'RS; true'",
    "terminal, nohup": "nohup RS &",
    "same shell": None,
}
# Every second one as root, the others as a user; the soak takes all launchers with all restarters.
CHOSEN = ["script that has ended/script", "subshell/subshell", "terminal, subshell/same shell", "terminal/cron",
          "setsid/terminal, background", "cron's background/terminal, script", "terminal, background/terminal, nohup",
          "terminal, subshell on it/script in the background", "at/timeout", "xargs/standard descriptors closed",
          "make/terminal", "bash -m/xargs", "ssh/exec", "terminal, setsid on it/make",
          "standard descriptors closed/script that has ended"]


class Situation:
    """One launch and its restarts in a folder of its own. Orphans are init's, as everywhere: whoever was started is
    found by its environment."""

    def __init__(self, t, program, number):
        processes.be_no_subreaper()
        self.t = t
        self.folder = os.path.join(t.work, f"s{number}".replace(" ", "-"))
        self.work = os.path.join(self.folder, "work")
        os.makedirs(self.work)
        with open(os.path.join(self.work, "program.py"), "w") as file:
            file.write(program)
        self.ckptdir = os.path.join(self.folder, "ckpt")
        self.env = dict(t.env, CAIRN_RUNDIR=os.path.join(self.folder, "run"), CAIRN_CKPTDIR=self.ckptdir, HISTFILE="/dev/null")
        self.cmd = f"{t.cairn} launch /usr/bin/python3 program.py"
        self.terminal = None
        self.pids = {}

    def close(self):
        self.kill()
        if self.terminal:
            self.terminal.hang_up()

    # ---- processes

    def everybody(self):
        mark = f"CAIRN_RUNDIR={self.env['CAIRN_RUNDIR']}\0".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read():
                        found.append(int(entry))
            except OSError:
                pass
        return [pid for pid in found if not gone(pid)]

    def tools(self):
        return [pid for pid in self.everybody() if name(pid) == "cairn-restart"]

    def kill(self, keep=()):
        known = {}

        def none_left():
            # Who is dying shows no environment any more, long before he has let go of what he has.
            for pid in self.everybody():
                if pid not in keep and pid not in known and (found := processes.stat(pid)):
                    known[pid] = found[2:]
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            return all(gone(pid) for pid in known)
        self.wait(none_left, "everybody to be dead")

    def wait(self, condition, what, timeout=20.0):
        limit = time.monotonic() + timeout * SLOW
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > limit:
                raise Failure(f"waited {timeout * SLOW:.0f} s for {what}; {self.said()}")
            if self.terminal:
                self.terminal.drain()
            processes.reap()
            time.sleep(0.01)

    def said(self):
        text = self.terminal.tail() if self.terminal else ""
        for path in ("said",):
            if os.path.exists(os.path.join(self.folder, path)):
                with open(os.path.join(self.folder, path), errors="replace") as file:
                    text += file.read()[-1500:]
        return f"what was said:\n{text}"

    # ---- launch, checkpoint, restart

    def start(self, how, word, text):
        """Starts CMD or RS (`word`) as `how` says."""
        env, arguments = self.env, how
        if isinstance(how, str):
            self.terminal = Terminal()
            pid = processes.spawn(BASH, env=env, cwd=self.work, terminal=self.terminal.path)
            self.terminal.started()
            self.shell = pid
            self.wait(lambda: self.terminal.find(rb"[$#] "), "the shell's prompt")
            self.terminal.send(how.replace(word, text) + "\n")
            return pid
        if how[0] == "cron":
            kept = ("CAIRN_RUNDIR", "CAIRN_CKPTDIR", "CAIRN_SESSION")
            env = dict({key: env[key] for key in kept}, HOME=env.get("HOME", "/"), LOGNAME="somebody", SHELL="/bin/sh",
                       PATH="/usr/bin:/bin")
            arguments = how[1:]
        said = os.path.join(self.folder, "said")
        arguments = [argument.replace(word, text) for argument in arguments]
        if how[0] == "sockets":  # as sshd starts a command without a terminal: one socket to read from and write to
            self.socket, theirs = socket.socketpair()
            return processes.spawn(arguments[1:], env=env, cwd=self.work, stdin=theirs.fileno(), stdout=theirs.fileno(),
                                   stderr=said, new_session=True)
        return processes.spawn(arguments, env=env, cwd=self.work, stdin="/dev/null", stdout=said, stderr=said, new_session=True)

    def restart(self, how, options="", script=None):
        command = f"{script or self.ckptdir + '/restart.sh'} --ids={self.t.ids} {options}".strip()
        if how is None:
            self.terminal.send(command + "\n")
            return self.shell
        if self.terminal:
            self.terminal.hang_up()
            self.terminal = None
        return self.start(how, "RS", command)

    def progress(self):
        try:
            with open(os.path.join(self.work, "progress")) as file:
                at, self.pid = map(int, file.read().split())
            return at
        except (OSError, ValueError):
            return -1

    def checkpoint(self):
        self.wait(lambda: self.progress() >= 2, "the launched program to count")
        done = subprocess.run([self.t.cairn, "checkpoint"], env=self.env, cwd=self.work, capture_output=True, text=True, timeout=60 * SLOW)
        check(done.returncode == 0, f"checkpoint: {done.returncode} {done.stderr}")

    def goes_on(self):
        """Waits until the restarted program has done something; its kernel's pid and the tool's."""
        self.wait(lambda: self.progress() > self.before, "the restarted program to go on")
        self.wait(self.tools, "the restart to be there")
        tool = self.wait(lambda: [pid for pid in self.tools() if (processes.stat(pid) or [0] * 3)[2] not in self.tools()], "a restart")[0]
        found = self.wait(lambda: [pid for pid in children(tool) if b"program.py" in command(pid)], "the program to be the restart's child")
        return found[0], tool

    def begin_anew(self):
        """What the program says it has done is from before."""
        os.truncate(os.path.join(self.work, "progress"), 0)
        self.before = -1

    def stand_still(self):
        """Everybody but the interactive shell is killed. What the program prints afterwards counts from here."""
        self.kill(keep=[self.shell] if self.same_shell else [])
        self.before = self.progress()


def gone(pid):
    found = processes.stat(pid)
    return not found or found[1] in "ZX"


def name(pid):
    return (processes.stat(pid) or [""])[0]


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def installed(how):
    if how is None:
        return True
    words = how if isinstance(how, list) else ["bash", "-c", how]
    first = words[1] if words[0] in ("cron", "sockets") else words[0]
    text = " ".join(words).replace("(", " ")
    tools = ("parallel", "tmux -S", "screen -d", "sudo -n", "su -m", "runuser -u", "unbuffer", "zsh")
    named = [tool.split()[0] for tool in tools if tool in text]
    if ("su -m" in text or "runuser -u" in text or "sudo -n" in text) and os.getuid() != 0:
        return False
    return all(shutil.which(tool) for tool in [first, *named])


def related(program, tool, saved):
    """Parent, session and group: of its own if it led them, else the restart's session."""
    now, of_tool = processes.stat(program), processes.stat(tool)
    leads_session, leads_group = saved
    check(now[2] == tool, f"the program's parent is {now[2]}, not the restart {tool}")
    if leads_session:
        check(now[4] == program and now[3] == program, f"{now} doesn't lead its session any more")
    else:
        check(now[4] == of_tool[4], f"the program is in session {now[4]}, the restart in {of_tool[4]}")
        check((now[3] == program) == leads_group, f"group {now[3]} of program {program}, which {'led' if leads_group else 'did not lead'} one")


def situation(t, launcher, restarter, number, tries=0):
    s = Situation(t, PROGRAM, number)
    s.same_shell = restarter == "same shell"
    try:
        s.start(LAUNCHERS[launcher], "CMD", s.cmd)
        s.checkpoint()
        found = processes.stat(s.pid)
        saved = (found[4] == s.pid, found[3] == s.pid)
        s.stand_still()
        for turn in range(2):
            s.restart(RESTARTERS[restarter])
            program, tool = s.goes_on()
            related(program, tool, saved)
            if turn == 0:
                os.kill(tool, signal.SIGTERM)
                s.wait(lambda: gone(program) and gone(tool), "SIGTERM to end the program and the restart", 10)
                s.stand_still()
                s.begin_anew()
                continue
            s.wait(lambda: s.progress() > 5, "the program to count on")
            open(os.path.join(s.work, "stop"), "w").close()
            s.wait(lambda: gone(program) and gone(tool), "the restart to end when its program has", 10)
            if os.path.exists(os.path.join(s.work, "out")) and launcher not in ("terminal, pipeline", "ssh"):
                with open(os.path.join(s.work, "out")) as file:
                    lines = file.read().splitlines()
                check(lines == [str(i) for i in range(len(lines))] and len(lines) > s.progress(), f"the output isn't that of one run: {lines[-20:]}")
    except Failure as failure:
        # Other tests take pids meanwhile. (A restart without standard descriptors can't say so.)
        if t.ids == "exact" and tries < 3 and ("taken" in str(failure) or "closed" in restarter):
            t.say(f"again: {launcher}/{restarter}: {str(failure)[-300:]}")
            return situation(t, launcher, restarter, f"{number}-{tries}", tries + 1)
        raise Failure(f"{launcher}/{restarter}: {failure}") from None
    finally:
        s.close()


def heard(s):
    try:
        with open(os.path.join(s.work, "heard")) as file:
            return file.read().split()
    except OSError:
        return []


def expect_heard(s, number, what):
    s.wait(lambda: heard(s), f"the program to hear of {what}", 10)
    time.sleep(0.03)
    check(heard(s) == [str(number)], f"{what}: the program has heard {heard(s)}")
    os.truncate(os.path.join(s.work, "heard"), 0)


def signals(t):
    """Each signal reaches the program once, whether it was sent to the restart's pid or to its group; and ends."""
    for launcher in ("script", "bash -m"):  # in the launcher's group, and in one of its own
        s = Situation(t, LISTENER, f"signals-{launcher}")
        s.same_shell = False
        try:
            s.start(LAUNCHERS[launcher], "CMD", s.cmd)
            s.checkpoint()
            s.stand_still()
            for turn in range(2):
                s.restart(RESTARTERS["exec"])
                program, tool = s.goes_on()
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
                               signal.SIGCONT, 40):
                    os.kill(tool, number)
                    expect_heard(s, int(number), f"signal {number} to the restart's pid ({launcher})")
                    os.killpg(os.getpgid(tool), number)
                    expect_heard(s, int(number), f"signal {number} to the restart's group ({launcher})")
                os.kill(tool, signal.SIGKILL)
                s.wait(lambda: gone(program), "SIGKILL of the restart to end the program", 10)
                s.stand_still()
            t.say(f"signals, {launcher}: each once, by pid and by group; SIGKILL ends")
        finally:
            s.close()
    s = Situation(t, PROGRAM, "ends")
    s.same_shell = False
    try:
        s.start(LAUNCHERS["script"], "CMD", s.cmd)
        s.checkpoint()
        s.stand_still()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            s.begin_anew()
            started = s.restart(RESTARTERS["exec"], "--quiet")
            program, tool = s.goes_on()
            check(tool == started, f"the restart is {tool}, not {started}, which was started")
            os.kill(tool, number)
            s.wait(lambda: gone(tool), "the restart to end", 10)
            status = processes.status_of(tool)  # python3 kills itself by SIGINT when it is interrupted
            check(os.waitstatus_to_exitcode(status) == -number, f"{number} was sent, the restart was {processes.describe_status(status)}")
        s.begin_anew()
        s.restart("sh -c 'RS --quiet; echo never'")
        program, tool = s.goes_on()
        s.terminal.send("\x03")
        s.wait(lambda: gone(program) and gone(tool), "Ctrl-C to end the program", 10)
        check(not s.terminal.find(rb"\nnever"), "the script goes on behind a restart that was interrupted")
        s.stand_still()
        # A terminal that goes takes the restart along, and doesn't if it is under nohup.
        for how, lives in (("RS", False), ("nohup RS &", True)):
            s.begin_anew()
            s.restart(how)
            program, tool = s.goes_on()
            s.terminal.hang_up()
            if lives:
                at = s.progress()
                s.wait(lambda: s.progress() > at + 20, "the program to go on without its terminal", 10)
            else:
                s.wait(lambda: gone(program) and gone(tool), "the program to end with its terminal", 10)
            s.terminal = None
            s.stand_still()
        t.say("signals: the restart ends by what its program has ended by; Ctrl-C, hang-up, nohup")
    finally:
        s.close()


def early(t):
    """Ended before its programs run, a restart leaves nothing behind, and the next one works."""
    s = Situation(t, PROGRAM, "early")
    s.same_shell = False
    try:
        s.start(LAUNCHERS["script"], "CMD", s.cmd)
        s.checkpoint()
        s.stand_still()
        for turn in range(60 if t.soak else 12):
            s.begin_anew()
            tool = s.restart(RESTARTERS["exec"], "--quiet")
            time.sleep(t.random.uniform(0.0, 0.1))
            os.kill(tool, (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)[turn % 3])
            s.wait(lambda: gone(tool), "the restart to end", 10)
            try:
                s.wait(lambda: all(name(pid) == "cairn-coordinat" for pid in s.everybody()), "everybody of the restart to be gone", 10)
            except Failure as failure:
                raise Failure(f"turn {turn}: {failure}\n" + "\n".join(processes.report(pid) for pid in s.everybody())) from None
        s.begin_anew()
        s.restart(RESTARTERS["exec"])
        s.goes_on()
        t.say("ended early: nothing is left")
    finally:
        s.close()


def older(t):
    """From an older generation, after the working folder was renamed and came back under another name."""
    s = Situation(t, PROGRAM, "older")
    s.same_shell = False
    try:
        s.start(LAUNCHERS["subshell"], "CMD", s.cmd)
        s.checkpoint()
        first = os.path.realpath(f"{s.ckptdir}/latest")
        s.checkpoint()
        s.stand_still()
        elsewhere = s.work + ".renamed"
        os.rename(s.work, elsewhere)
        s.work, old = elsewhere, s.work
        s.begin_anew()
        s.restart(RESTARTERS["exec"], f"--path-map {old}={elsewhere}", f"{first}/restart.sh")
        s.goes_on()
        t.say("an older generation, in a renamed folder")
    finally:
        s.close()


def test(t):
    wanted = t.arguments.names
    pairs = [each for each in wanted if "/" in each]
    if not wanted:
        pairs = [f"{a}/{b}" for a in LAUNCHERS for b in RESTARTERS] if t.soak else CHOSEN[t.mode in ("user", "userns")::2]
    done, left_out = 0, []
    for number, pair in enumerate(pairs):
        launcher, restarter = pair.split("/")
        same = restarter == "same shell"
        if not installed(LAUNCHERS[launcher]) or not installed(RESTARTERS[restarter]) or (same and isinstance(LAUNCHERS[launcher], list)):
            left_out.append(pair)
            continue
        situation(t, launcher, restarter, number)
        done += 1
    t.say(f"{done} situations, {len(left_out)} left out")
    # The chosen ones need nothing that isn't everywhere.
    check(done > len(left_out) if t.soak else not left_out, f"{done} situations only, left out: {left_out}")
    for part in (signals, early, older):
        if not wanted or part.__name__ in wanted:
            part(t)
