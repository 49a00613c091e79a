"""A sandbox of bubblewrap's within another one, each with all namespaces of its own (--unshare-all), in which bash and python3 run; and `unshare -rpf` within `unshare -rpf`"""
# ci: exact
import os

NEEDS = ["/usr/bin/bwrap", "/usr/bin/unshare"]

BOX = ["bwrap", "--unshare-all", "--unshare-user", "--dev-bind", "/", "/"]  # the inner one sees the outer one's /proc

# Said by number in the outer sandbox: $$ of the shell there, and what it knows its children as.
OUTER = """sleep 1000 & job=$!
{box} bash {inner} & box=$!
while kill -0 $box 2> /dev/null; do kill -0 $job || echo job lost; sleep 0.05; done
wait $box; echo "inside gave $?, I am $$, it was $box, job $job"
kill $job
exit 5
"""

# These end when there is a file: a busy machine may be slow in taking the checkpoints.
INNER = """python3 -c '
import os, time
me, parent = os.getpid(), os.getppid()
while os.getpid() == me and os.getppid() == parent: time.sleep(0.05)
print("python is another")' & job=$!
i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    [ $i -lt 50 ] || [ -e {end} ] || i=1
    echo "line $i of $$ with $job, $(cat /proc/1/comm), $(sh -c 'echo $PPID')"
    kill -0 $job || echo job lost
    sleep 0.03
done
kill $job
exit 7
"""

PLAIN = """i=0
while [ $i -lt 60 ]; do i=$((i + 1)); [ $i -lt 50 ] || [ -e {end} ] || i=1; echo "line $i of $$, $(sh -c 'echo $PPID')"; sleep 0.03; done
exit 7
"""


def go_through(t, program, line, last, end):
    for number in range(t.rounds):
        # Any of them: on a busy machine many are said before the checkpoint comes.
        program.expect(rf"line \d+ {line}\r?\n")
        program, _ = t.cycle(program, number, at_once=True)
    with open(end, "w", encoding="utf-8"):
        pass
    program.expect(rf"line 60 {line}\r?\n{last}", 60)
    return program


def test(t):
    inner, ends = os.path.join(t.work, "inner.sh"), [os.path.join(t.work, name) for name in ("end", "plain-end")]
    texts = {"outer.sh": OUTER.format(box=" ".join(BOX), inner=inner), "inner.sh": INNER.replace("{end}", ends[0]), "plain.sh": PLAIN.replace("{end}", ends[1])}
    for name, text in texts.items():
        with open(os.path.join(t.work, name), "w", encoding="utf-8") as file:
            file.write(text)
    program = t.launch([*BOX, "--proc", "/proc", "bash", os.path.join(t.work, "outer.sh")])
    program = go_through(t, program, "of 2 with 3, bwrap, 2", "inside gave 7, I am 2, it was 4, job 3", ends[0])
    program.expect_exit(5)

    program = t.launch(["unshare", "-rpf", "unshare", "-rpf", "bash", os.path.join(t.work, "plain.sh")])
    program = go_through(t, program, "of 1, 1", "", ends[1])
    program.expect_exit(7)
