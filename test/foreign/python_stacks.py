"""Functions of Python in stacks (`cairn list --stacks`, `--waits`, `cairn inspect --stacks`), held against what Python says of its own threads (sys._current_frames()): names, files, lines, in the order of the
calls, each before the interpreter's C function that runs it. Generators, lambdas, methods, calls by way of C, names beyond ASCII, a recursion deeper than is copied of living ones; before and after a restart.
--soak: every python3.7 to python3.13 that there is."""
# ci: exact user
import json
import os
import shutil
from cairn_test import check

SOURCE = r"""
import json, sys, threading, time

never = threading.Event()

class Ort:
    def __init__(self, depth):
        self.depth = depth
    def warte(self):
        if self.depth == 0:
            return sum(self.einzeln())
        self.depth -= 1
        return self.warte()
    def einzeln(self):
        for i in range(3):
            never.wait()
            yield i

def naïve_größe(x):
    return sorted([3, 1, 2],
                  key=lambda v: Ort(3).warte())

def 深い(n):
    return never.wait() if n == 0 else 深い(n - 1)

def exec_it():
    exec(compile("def inner():\n\n\n    never.wait()\ninner()", "<made>", "exec"))

def many_lines():
    value = [
        0,
        *map(lambda each: never.wait(),
             [1]),
    ]

bodies = [lambda: naïve_größe(1), lambda: 深い(400), exec_it, many_lines]
threads = [threading.Thread(target=each, daemon=True) for each in bodies]
for each in threads:
    each.start()

def stacks():
    found = {}
    for each in threads:
        frame, frames = sys._current_frames()[each.ident], []
        while frame is not None:
            code = frame.f_code
            frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
            frame = frame.f_back
        found[each.name] = frames
    return found

def is_still(before):
    time.sleep(0.1)
    return all(each[0][0].endswith("wait") for each in before.values()) and stacks() == before

seen = stacks()
while not is_still(seen):
    seen = stacks()
print("READY", json.dumps(list(seen.values())), flush=True)
sys.stdin.readline()
"""
INTERPRETER = "_PyEval_EvalFrameDefault"


def interpreters(t):
    if not t.soak:
        return ["/usr/bin/python3"]
    return ["/usr/bin/python3"] + [path for path in (shutil.which(f"python3.{minor}") for minor in range(7, 14)) if path]


def python_of(thread):
    return [[frame["function"], frame["file"], frame["line"]] for frame in thread["frames"] if frame["python"]]


def check_order(thread, where):
    """What runs a function stands behind it."""
    frames = thread["frames"]
    for at, frame in enumerate(frames):
        if frame["python"] and thread["broken"] == "":
            behind = next((each for each in frames[at + 1:] if not each["python"]), None)
            check(behind is not None and behind["function"].startswith(INTERPRETER), f"{where}: behind {frame} comes {behind}")
            check(frame["pc"] == 0 and frame["module"] == "", f"{where}: {frame}")


def compare(threads, said, most, where):
    """Each thread that Python tells of, the main one not being among them."""
    left = [python_of(each) for each in threads]
    for frames in said:
        expected = [list(each) for each in frames[:most]]
        check(expected in left, f"{where}: Python is in {frames[:8]}..., and the stacks are {[each[:8] for each in left]}")
        thread = threads[left.index(expected)]
        check((thread["broken"] != "") == (len(frames) > most), f"{where}: {thread['broken']}")
        check_order(thread, where)
    check(len(threads) == len(said) + 1, f"{where}: {len(threads)} threads")


def look(t, said, where):
    code, out, err = t.command("list", "--stacks", "--json")
    check(code == 0, f"{where}: {code} {err}")
    process, = json.loads(out)
    check(process["problem"] == "", f"{where}: {process['problem']}")
    compare(process["threads"], said, 300, f"{where}, living")
    main = python_of(process["threads"][0])
    check(len(main) == 1 and main[0][0] == "<module>", f"{where}: the main thread is in {main}")
    code, out, err = t.command("list", "--waits")
    check(code == 0 and "< <module> (program.py:" in out, f"{where}: {code} {out} {err}")
    code, out, err = t.command("list", "--stacks")
    check(code == 0 and "in <module> at " in out and "Python " in out, f"{where}: {code} {out} {err}")
    t.checkpoint()
    code, out, err = t.run([t.cairn, "inspect", "--stacks", "--json", t.latest()])
    check(code == 0, f"{where}: {code} {err}")
    compare(json.loads(out)["processes"][0]["threads"], said, 10_000, f"{where}, the image")


def test(t):
    program = os.path.join(t.work, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    for python in interpreters(t):
        group = t.launch([python, program])
        said = json.loads(group.expect(r"READY (\[.*\])\r?\n")[1])
        check(any(len(each) > 400 for each in said) and len(said) == 4, f"{python}: {said}")
        for number in range(t.rounds):
            look(t, said, f"{python}, {number}")
            t.pull_the_plug()
            group = t.restart()
        look(t, said, f"{python}, restarted")
        t.must("kill")
        t.say(f"{python}: stacks of {sum(map(len, said))} functions")
