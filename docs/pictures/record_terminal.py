#!/usr/bin/env python3
"""Records the terminal session that README.md shows: a program is saved, killed and brought back.

    docs/pictures/record_terminal.py                   print the session
    docs/pictures/record_terminal.py --into README.md  replace the recorded block of that file

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

# What is typed, and for how many seconds the screen is watched before the next line is typed. An empty line shows the prompt
# again after what a program in the background has printed.
LINES = [
    ("cairn launch --ckptdir ckpt python3 count.py &", 3),
    ("cairn checkpoint", 3),
    ("tail -n 1 said; kill -9 %1", 1.5),
    ("", 0.5),
    ("ckpt/restart.sh &", 4),
    ("", 0.5),
    ("tail -n 1 said", 0.5),
    ("cairn list", 1),
]


class Terminal:
    def __init__(self, folder, environment):
        self.shown = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.closerange(3, 4096)
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.master], [], [], left)
            if ready:
                self.shown += os.read(self.master, 65536)

    def type(self, line):
        os.write(self.master, line.encode() + b"\n")


def record(binaries):
    folder = tempfile.mkdtemp(prefix="count-", dir="/tmp")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
    environment |= {"CAIRN_RUNDIR": folder + "/run", "PATH": f"{binaries}:{environment['PATH']}", "PS1": "$ ",
                    "TERM": "dumb", "HISTFILE": "", "LC_ALL": "C.UTF-8"}
    try:
        pathlib.Path(folder, "count.py").write_text(PROGRAM)
        terminal = Terminal(folder, environment)
        terminal.watch(1)
        for line, seconds in LINES:
            terminal.type(line)
            terminal.watch(seconds)
        text = terminal.shown.decode(errors="replace").replace("\r", "")
        steps = [int(line.split()[1]) for line in pathlib.Path(folder, "said").read_text().splitlines()]
        again = [i for i in range(1, len(steps)) if steps[i] <= steps[i - 1]]
        if len(again) != 1 or sorted(set(steps)) != list(range(1, max(steps) + 1)) or steps[-1] == steps[again[0] - 1]:
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


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    options.add_argument("--into", type=pathlib.Path)
    options = options.parse_args()
    block = tidy(record(options.build.resolve() / "bin"))
    if options.into is None:
        print(block, end="")
        return
    text = options.into.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"record_terminal: {options.into} has no place for the record")
    before, rest = text.split(BEGIN)
    options.into.write_text(f"{before}{BEGIN}\n\n{block}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
