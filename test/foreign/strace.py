"""strace -f of a shell script that starts programs all the time: what it writes down is what it would have without checkpoints, apart from
ids and times, and the script says what it would have said."""
# ci: exact
import os
import re

NEEDS = ["/usr/bin/strace"]

SCRIPT = """i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    echo line $i | cat
    (echo sub $i)
    sleep 0.05
done
echo the end
"""


# What the script's programs do. The library's own calls depend on the session's state, waits on the moment at which a child ends.
# Any signal, a child's end as well, cuts these short before they have done anything, and the kernel begins them anew (ERESTARTNOINTR of fork in kernel/fork.c).
BEGIN_ANEW = ("wait4", "clone", "vfork")
COMPARED = ("execve", "write", "pipe2", "dup2", "exit_group", "clock_nanosleep")


def calls_of(path):
    """These calls of all processes together, with their arguments and results, and the others that were cut short."""
    lines, unfinished = [], {}
    with open(path, errors="replace") as file:
        for line in file:
            pid, rest = re.match(r"(\d+) +(.*)", line).groups()
            if rest.endswith("<unfinished ...>"):
                unfinished[pid] = rest[:-len("<unfinished ...>")].rstrip()
                continue
            resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", rest)
            if resumed:
                assert pid in unfinished, line
                rest = unfinished.pop(pid) + resumed.group(1)
            if rest.startswith(COMPARED) or ("= ? ERESTART" in rest and not rest.startswith(BEGIN_ANEW)):
                lines.append(re.sub(r"0x[0-9a-f]+", "ADDRESS", re.sub(r"\s+", "", rest)))
    return sorted(lines)


def test(t):
    script = os.path.join(t.work, "script.sh")
    with open(script, "w") as file:
        file.write(SCRIPT)

    def launch(output):
        return t.launch(["strace", "-f", "-o", os.path.join(t.work, output), "sh", script])

    def end(program):
        program.expect(r"line 60\r?\n.*sub 60\r?\n.*the end\r?\n", 120)
        program.expect_exit(0)

    end(launch("undisturbed"))
    program = launch("disturbed")
    for number in range(t.rounds):
        program.expect(rf"line \d+\r?\n")
        program, _ = t.cycle(program, number)
    end(program)
    undisturbed, disturbed = (calls_of(os.path.join(t.work, name)) for name in ("undisturbed", "disturbed"))
    assert len(undisturbed) > 500, len(undisturbed)
    different = set(undisturbed) ^ set(disturbed)
    assert undisturbed == disturbed, f"{len(undisturbed)} calls undisturbed, {len(disturbed)} disturbed: {sorted(different)[:20]}"
