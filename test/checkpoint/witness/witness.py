"""All that the kernel shows of a program of this folder, as a witness apart from cairn sees it (docs/witness.md), is before a checkpoint what it is
after kill -9 and restart, but for what a rule names: witness.py NAME. What differs between two looks at the undisturbed program moves by itself."""
import os
from cairn_test import check
from cairn_test.serving import ask, begin, cycle, finish


def looks(t, kind):
    found = []
    for number in range(3):
        for _ in range(10):
            members = [str(each["pid"]) for each in t.members()]
            code, out, err = t.run([os.path.join(t.build, "bin", "cairn-witness"), *members], timeout=120)
            if code == 0:  # else somebody has ended meanwhile
                break
        check(code == 0, f"the witness ended with {code}: {err}")
        found.append(os.path.join(t.work, f"{kind}-{number}.json"))
        with open(found[-1], "w", encoding="utf-8") as file:
            file.write(out)
        t.sleep(0.1)
    return found


def test(t):
    program = begin(t, t.arguments.names[0])
    before = looks(t, "before")
    program = cycle(t, program, 0)
    after = looks(t, "after")
    code, out, err = t.run([os.path.join(t.build, "bin", "cairn-witness"), "--before", *before, "--after", *after])
    ask(t, program, 0)
    finish(t, program)
    check(code == 0, f"before -> after:\n{out}{err}")
