"""proot, which traces a script and all that it starts to show it other paths: the script goes on as if nothing had been, and what it sees is what proot shows it."""
# ci: exact
import os

NEEDS = ["/usr/bin/proot"]

SCRIPT = """i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    [ $i -lt 50 ] || [ -e end ] || i=1  # until there were all checkpoints
    echo line $i | cat
    (cat /elsewhere/text)
    sleep 0.03
done
echo the end
exit 7
"""


def test(t):
    os.makedirs(os.path.join(t.work, "bound"))
    for name, text in (("script.sh", SCRIPT), ("bound/text", "seen there\n")):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text)
    program = t.launch(["proot", "-r", "/", "-b", f"{t.work}/bound:/elsewhere", "-w", t.work, "/bin/bash", "script.sh"])
    for number in range(t.rounds):
        program.expect(rf"line \d+\r?\nseen there")
        program, _ = t.cycle(program, number, at_once=True)
    with open(os.path.join(t.work, "end"), "w"):
        pass
    program.expect(r"line 60\r?\nseen there\r?\nthe end", 60)
    program.expect_exit(7)
