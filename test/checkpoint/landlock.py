"""Whoever is restricted by Landlock is refused by name, and goes on restricted; with --landlock=drop he is saved and comes back without, which the checkpoint and
the restart say. Whoever isn't restricted is neither refused nor named, whatever he has promised."""
# ci: exact user
import json
import os
from cairn_test import check
from cairn_test.serving import begin, expect, finish

# Of a dynamic program's threads those are found that restrict themselves by syscall(2); of a static one's all.
KINDS = [("landlock", kind) for kind in ("call", "raw", "twice", "exec", "thread", "child")] + [
    ("static/landlock", kind) for kind in ("call", "thread", "raw thread")]
# Of root's that haven't promised to gain no privileges those are found that the library, or a program that they descend from, has seen.
OF_ROOT = [("landlock", "capable exec"), ("landlock", "capable child execs"), ("static/landlock", "capable exec")]


def ask(t, program, number, wanted):
    t.order(f"check {number}")
    expect(program, wanted)
    expect(program, f"CHECKED {number}")


def end(t, program):
    finish(t, program)
    os.unlink(os.path.join(t.work, "command"))


def test(t):
    for name, kind in KINDS + (OF_ROOT if t.mode in ("exact", "virtual") else []):
        label = f"{name}, {kind}"
        program = begin(t, name, kind)
        ask(t, program, 1, "RESTRICTED")
        code, _, err = t.command("checkpoint")
        check(code == 3 and "is restricted by Landlock" in err and "--landlock=drop" in err and "(landlock)" in err,
              f"{label}: the checkpoint ended with {code}: {err}")
        ask(t, program, 2, "RESTRICTED")
        code, out, err = t.command("checkpoint", "--landlock", "drop", "--json")
        check(code == 0, f"{label}: the checkpoint ended with {code}: {err}")
        notes = [note for note in json.loads(out)["notes"] if "is restricted by Landlock" in note]
        check(len(notes) == (2 if "child" in kind else 1), f"{label}: notes: {out}")
        ask(t, program, 3, "RESTRICTED")
        # The file of orders may be open: the last order comes before the checkpoint.
        code, _, err = t.command("checkpoint", "--landlock", "drop", "--kill")
        check(code == 0, f"{label}: the checkpoint that ends it ended with {code}: {err}")
        t.pull_the_plug(False)
        program = t.restart(name=f"{label}, restarted")
        ask(t, program, 4, "FREE")
        check("was restricted by Landlock" in t.text_of(program), f"{label}: the restart didn't say it: {t.text_of(program)}")
        t.checkpoint()
        end(t, program)
        t.say(label)
    program = begin(t, "landlock", "no", env={"CAIRN_LANDLOCK": "refuse"})
    code, out, err = t.command("checkpoint", "--json")
    check(code == 0 and "Landlock" not in out + err, f"an unrestricted program: {code}: {out}{err}")
    ask(t, program, 1, "FREE")
    end(t, program)
