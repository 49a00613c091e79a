"""The paper's programs come back as `ps axjf` showed them: (a) an orphan in the session of somebody else's child, (b) children
born before their parent's setsid(), (c) two programs that talk, started and restarted on two terminals."""
# ci: user
import os
import json
import re
import subprocess
from cairn_test import check

PROGRAM = {"a": {"p1", "p11", "p12", "p13", "p131", "p132", "p2", "p21", "p22"},
           "b": {"p1", "p11", "p12", "p13", "p131", "p132", "p133"}}


def shown(t):
    """The lines of `ps axjf` that are the group's, with the ids that the programs know."""
    known = {str(each["real"]): str(each["pid"]) for each in t.members()}
    said = subprocess.run(["ps", "axjfww"], env=dict(os.environ, COLUMNS="400"), capture_output=True, text=True, check=True).stdout
    lines = []
    for line in said.splitlines()[1:]:
        ppid, pid, pgid, sid, terminal, foreground, state, _uid, _time, command = line.split(None, 9)
        if pid not in known:
            continue
        # Who restarts it is another parent for the topmost; the terminal's name is another; R or S is chance. What ps draws
        # to the left of a command depends on who stands above the group.
        lines.append((known.get(ppid, "outside"), known[pid], known.get(pgid, pgid), known.get(sid, sid),
                      "terminal" if terminal != "?" else "?", known.get(foreground, foreground),
                      state.replace("R", "S").replace("D", "S"), re.sub(r"^[\s|\\_]*", "", command).strip()))
    return sorted(lines, key=lambda fields: int(fields[1]))


def tree(t, kind):
    shell = t.launch(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "$ ", "HISTFILE": "/dev/null"})
    shell.expect(r"\$ ")
    shell.send(f"{os.path.join(t.build, 'test', 'checkpoint', 'forest')} {kind} {'x' * 40}\n")
    shell.expect(r"(READY|FAILED[^\r\n]*)\r?\n")
    t.wait_members(len(PROGRAM[kind]) + 1)
    before = shown(t)
    names = {line[7].removeprefix("forest-") for line in before}
    check(PROGRAM[kind] < names, f"{kind}: {names} instead of {PROGRAM[kind]}")
    for line in before:
        t.say(f"({kind}) {' '.join(line)}")
    for number in range(t.rounds):
        shell, _ = t.cycle(shell, number)
        t.wait_members(len(before))
        # The group runs when the first is let go; the last may still stand still, traced by the restart.
        t.wait_until(lambda: all(line[6][0] != "t" for line in shown(t)), "the restart to let everybody go", 10)
        after = shown(t)
        check(after == before, f"({kind}) ps axjf shows\n" + "\n".join(map(str, after)) + "\nafter\n" + "\n".join(map(str, before)))
        check(b"FAILED" not in shell.terminal.text, shell.terminal.tail())
    t.must("kill")
    t.pull_the_plug()


def talking(t):
    there, back = os.path.join(t.work, "there"), os.path.join(t.work, "back")
    os.mkfifo(there)
    os.mkfifo(back)
    path = os.path.join(t.build, "test", "checkpoint", "forest")
    ends = [t.launch([path, "first", there, back]), t.launch([path, "second", back, there])]
    for end in ends:
        end.expect(r"READY\r?\n")
        end.expect(r"at \d+\r?\n")
    before = shown(t)
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        with open(os.path.join(t.latest(), "manifest.json")) as file:
            parts = [part["number"] for part in json.load(file)["parts"]]
        check(len(parts) == 2, f"parts: {parts}")
        ends = [t.restart("--part", str(part), wait=False, name=f"part {part}") for part in parts]
        for end in ends:
            end.expect(r"at \d+\r?\n")
        after = shown(t)
        check(after == before, f"(c) ps axjf shows {after} after {before}")
        terminals = {member["terminal"] for member in t.members()}
        check(terminals == {end.terminal.path for end in ends}, f"(c) on {terminals}")
        for end in ends:
            check(b"FAILED" not in end.terminal.text, end.terminal.tail())
        t.say(f"(c) round {number + 1}: {len(after)} processes on {' and '.join(sorted(terminals))}")


def test(t):
    tree(t, "a")
    tree(t, "b")
    talking(t)
