#!/usr/bin/python3
# job_control.py REGION_TOOL LIBRARY: bash at a prompt with virtual ids, where every child has a number that somebody
# goes by already. Types at it as a user does.
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


prompt = rb"[\s\S]*PROMPT> "
os.write(terminal, b"PS1='PROM''PT> '\n")
until(rb"PROMPT> ")
for typed, answer in [
    (b"echo me $$\n", rb"me 1\d\d\d\d\d\d\r\n" + prompt),
    (b"sleep 100 &\n", rb"\[1\] 3\d\d\d\d\d\d\r\n" + prompt),
    (b"jobs -l\n", rb"3\d\d\d\d\d\d Running" + prompt),
    (b"sleep 50\n", rb"sleep 50\r\n"),
    (b"\x1a", rb"Stopped" + prompt),
    (b"bg\n", rb"sleep 50 &\r\n" + prompt),
    (b"fg %1\n", rb"sleep 100\r\n"),
    (b"\x03", prompt),
    (b"kill %2; wait %2; echo status $?\n", rb"status 143\r\n" + prompt),
    (b"cat | cat | wc -l\n", rb"wc -l\r\n"),
    (b"a\nb\n\x04", rb"2\r\n" + prompt),
    (b"yes >/dev/null | cat\n", rb"cat\r\n"),
    (b"\x03", prompt),
    (b"(trap 'echo got; exit 3' TERM; kill $BASHPID; sleep 1); echo $?\n", rb"got\r\n3\r\n" + prompt),
    (b"bash --norc -ic 'sleep 0.1 & wait; echo inner $?'\n", rb"inner 0\r\n" + prompt),
]:
    time.sleep(0.05)
    os.write(terminal, typed)
    until(answer)
os.write(terminal, b"exit 9\n")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
shutil.rmtree(folder)
