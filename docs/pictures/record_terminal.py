#!/usr/bin/env python3
"""Records the terminal session that README.md shows: a program is saved, killed and brought back.

    docs/pictures/record_terminal.py                   print the session
    docs/pictures/record_terminal.py --into README.md  replace the recorded block of that file
    docs/pictures/record_terminal.py --check README.md is the recorded block still what is shown, but for its numbers?

A real interactive bash runs on a pseudo-terminal and is typed at; what stands in the document is what the terminal showed.
Needs a build (--build, by default build/release). Leaves nothing behind."""
import argparse
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN = "<!-- recorded by docs/pictures/record_terminal.py -->"
END = "<!-- end of the record -->"

PROGRAM = """import itertools, os, time
for i in itertools.count(1):
    with open("said", "a") as said:
        print("step", i, "of process", os.getpid(), file=said)
    time.sleep(0.5)
"""


def steps_of(said):
    return [int(line.split()[1]) for line in said.read_text().splitlines()] if said.exists() else []


def has_begun(said):
    return len(steps_of(said)) >= 5


def is_beyond_the_checkpoint(said):
    return len(steps_of(said)) >= 12


def has_gone(said):
    """Its parent, bash, knows it as well: else a zombie would be there."""
    return not pathlib.Path("/proc", said.read_text().split()[-1]).exists()


def is_beyond_the_kill(said):
    steps = steps_of(said)
    return len(steps) > 1 and steps[-1] > max(steps[:-1]) and went_back(steps) == 1


def went_back(steps):
    return sum(after <= before for before, after in zip(steps, steps[1:]))


# What is typed; what the screen has to show then, as a regular expression; how far the program has to have come; and for how many
# seconds the screen is watched after that, before the next line is typed. An empty line shows the prompt again after what a program in the
# background has printed.
PROMPT = r".*\n\$ $"
LINES = [
    ("cairn launch --ckptdir ckpt python3 count.py &", "", has_begun, 0.1),
    ("cairn checkpoint", "durable after" + PROMPT, is_beyond_the_checkpoint, 1.5),
    ("tail -n 1 said; kill -9 %1", "step" + PROMPT, has_gone, 0.5),
    ("", r"\n\$ $", None, 0.1),
    ("ckpt/restart.sh &", "goes on", is_beyond_the_kill, 1),
    ("", r"\n\$ $", None, 0.1),
    ("tail -n 1 said", "step" + PROMPT, None, 0.1),
    ("cairn list", "restored" + PROMPT, None, 0.1),
]
PATIENCE = 60


class Terminal:
    def __init__(self, folder, environment):
        self.shown = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.closerange(3, 4096)
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)

    def watch(self, wanted, enough, seconds):
        begin, seen, found = time.monotonic(), len(self.shown), None
        while found is None or time.monotonic() - found < seconds:
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += os.read(self.master, 65536)
            shown = self.shown[seen:].decode(errors="replace").replace("\r", "")
            if found is None and re.search(wanted, shown, re.DOTALL) and enough():
                found = time.monotonic()
            if found is None and time.monotonic() - begin > PATIENCE:
                sys.exit(f"record_terminal: waited {PATIENCE} s for {wanted!r}:\n{self.shown.decode(errors='replace')}")

    def type(self, line):
        os.write(self.master, line.encode() + b"\n")


def record(binaries):
    folder = tempfile.mkdtemp(prefix="count-", dir="/tmp")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
    environment |= {"CAIRN_RUNDIR": folder + "/run", "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin", "PS1": "$ ",
                    "TERM": "dumb", "HISTFILE": "", "LC_ALL": "C.UTF-8"}
    try:
        pathlib.Path(folder, "count.py").write_text(PROGRAM)
        terminal = Terminal(folder, environment)
        said = pathlib.Path(folder, "said")
        terminal.watch(r"\$ $", lambda: True, 0.1)
        for line, wanted, enough, seconds in LINES:
            terminal.type(line)
            terminal.watch(wanted, lambda enough=enough: enough is None or enough(said), seconds)
        text = terminal.shown.decode(errors="replace").replace("\r", "")
        steps = steps_of(said)
        if not is_beyond_the_kill(said) or sorted(set(steps)) != list(range(1, max(steps) + 1)):
            sys.exit(f"record_terminal: the program didn't go on as it should have: {steps}\n{text}")
        return text
    finally:
        for verb in "kill", "quit":
            subprocess.run([f"{binaries}/cairn", verb], env=environment, capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def tidy(text):
    """Without the numbers of bash's jobs and empty prompts. A prompt before the words of a job in the background goes, too."""
    text = re.sub(r"^\$ (?=cairn: |\[\d+\])", "", text, flags=re.MULTILINE)
    lines = [line.rstrip() for line in text.splitlines() if not re.fullmatch(r"\[\d+\] \d+|\$ ?|", line)]
    return "".join(f"    {line}\n" for line in lines)


def shape(block):
    """What stays the same from one record to the next."""
    for pattern, by in ((r"/tmp/count-\w+", "FOLDER"), (r"\b[0-9a-f]{16}-\d+-\d+\b", "ID"), (r"\d+(\.\d+)?", "0"),
                        (r"\b0 ?(us|ms|s|min|h)\b", "TIME"), (r"\b0 ?(B|KiB|MiB)\b", "SIZE"), (r" +", " ")):
        block = re.sub(pattern, by, block)
    return block.strip()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    where = options.add_mutually_exclusive_group()
    where.add_argument("--into", type=pathlib.Path)
    where.add_argument("--check", type=pathlib.Path)
    options = options.parse_args()
    block = tidy(record(options.build.resolve() / "bin"))
    document = options.into or options.check
    if document is None:
        print(block, end="")
        return
    text = document.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"record_terminal: {document} has no place for the record")
    before, rest = text.split(BEGIN)
    old, behind = rest.split(END)
    if options.into:
        document.write_text(f"{before}{BEGIN}\n\n{block}\n{END}{behind}")
    elif shape(old) != shape(block):
        sys.exit(f"{document} shows another terminal than there is now:\n{block}record it again: "
                 f"docs/pictures/record_terminal.py --into {document}\n\n{shape(old)}\n\n{shape(block)}")


if __name__ == "__main__":
    main()
