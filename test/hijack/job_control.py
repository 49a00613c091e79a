#!/usr/bin/python3
# job_control.py REGION_TOOL LIBRARY: bash at a prompt with virtual ids, where every child has a number that somebody
# goes by already. Types at it as a user does; what becomes of its jobs is asked of the kernel.
import os, pty, re, select, shutil, sys, tempfile, time

tool, library = sys.argv[1:3]
folder = tempfile.mkdtemp()
region = folder + "/region"
assert os.spawnv(os.P_WAIT, tool, [tool, "create", region]) == 0
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "dumb"
    os.execv(tool, [tool, "run", region, library, "bash", "--norc", "--noprofile", "-i"])

seen = b""


def until(pattern, seconds=30):
    global seen
    end = time.time() + seconds
    while not (match := re.search(pattern, seen)):
        if time.time() > end:
            sys.exit("waited for %r, got %r" % (pattern, seen))
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                sys.exit("the shell has gone; waited for %r, got %r" % (pattern, seen))
    seen = seen[match.end():]
    return match


def stat(id):
    """(name, state, parent) by the kernel's number, None if it has gone."""
    try:
        with open("/proc/%d/stat" % id) as file:
            name, rest = file.read().split(" ", 1)[1].rsplit(")", 1)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (name.strip("("), rest.split()[0], int(rest.split()[1]))


def is_(job, *states):
    """A job's process as the kernel sees it; no state: it has gone."""
    end = time.time() + 30
    while (found := stat(jobs[job])) and found != ("sleep", found[1], pid) or (found[1] if found else None) not in (states or (None,)):
        if time.time() > end:
            sys.exit("job %d is %r, not in state %r" % (job, found, states))
        time.sleep(0.02)


def job(number):
    """By its number in the program (region_tool run: 3,000,000 above the kernel's)."""
    def note(match):
        jobs[number] = int(match[1]) - 3000000
        is_(number, "S")
    return note


jobs = {}


def check(condition, what):
    if not condition:
        sys.exit(what)


def in_front(number):
    """Its group is the terminal's."""
    end = time.time() + 30
    while os.tcgetpgrp(terminal) != jobs[number]:
        check(time.time() < end, "group %d is in front, not %d" % (os.tcgetpgrp(terminal), jobs[number]))
        time.sleep(0.02)


def came(number):
    """The shell's newest child, which is in front."""
    end = time.time() + 30
    while (front := os.tcgetpgrp(terminal)) in (pid, jobs[1]):
        check(time.time() < end, "no program is in front")
        time.sleep(0.02)
    jobs[number] = front
    is_(number, "S")




prompt = rb"[\s\S]*PROMPT> "
os.write(terminal, b"PS1='PROM''PT> '\n")
until(rb"PROMPT> ")
for typed, answer, *then in [
    (b"echo me $$\n", rb"me (\d+)\r\n" + prompt, lambda match: check(int(match[1]) == pid + 1000000, "it calls itself %s" % match[1])),
    (b"sleep 100 &\n", rb"\[1\] (3\d\d\d\d\d\d)\r\n" + prompt, job(1)),
    (b"jobs -l\n", rb"(3\d\d\d\d\d\d) Running" + prompt, lambda match: check(int(match[1]) == jobs[1] + 3000000, "jobs says %s" % match[1])),
    (b"sleep 50\n", rb"sleep 50\r\n", lambda _: came(2)),
    (b"\x1a", rb"Stopped" + prompt, lambda _: is_(2, "T")),
    (b"bg\n", rb"sleep 50 &\r\n" + prompt, lambda _: is_(2, "S")),
    (b"fg %1\n", rb"sleep 100\r\n", lambda _: in_front(1)),
    (b"\x03", prompt, lambda _: is_(1)),
    (b"kill %2; wait %2; echo status $?\n", rb"status 143\r\n" + prompt, lambda _: is_(2)),
    (b"cat | cat | wc -l\n", rb"wc -l\r\n"),
    (b"a\nb\n\x04", rb"2\r\n" + prompt),
    (b"yes >/dev/null | cat\n", rb"cat\r\n"),
    (b"\x03", prompt),
    (b"(trap 'echo got; exit 3' TERM; kill $BASHPID; sleep 1); echo $?\n", rb"got\r\n3\r\n" + prompt),
    (b"bash --norc -ic 'sleep 0.1 & wait; echo inner $?'\n", rb"inner 0\r\n" + prompt),
]:
    time.sleep(0.05)
    os.write(terminal, typed)
    match = until(answer)
    for look in then:
        look(match)
os.write(terminal, b"exit 9\n")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
shutil.rmtree(folder)
