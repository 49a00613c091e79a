"""`cairn top` on a real terminal (tmux's): what the page shows at 80x24 and 40x10, of three processes and of 100, dirty memory, a checkpoint at the press of a key, the size that changes, a coordinator that ends and comes
back, and the terminal as it was afterwards; `--once`, `--json`, and where there is no terminal."""
# ci: user (what it shows is the same whatever the ids)
import json
import os
import re
import signal
import subprocess
from cairn_test import check

NEEDS = ["/usr/bin/tmux"]

PROMPT = r"\$\s*$"  # of the shell, which is back
WRITER = """import mmap, sys
memory = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
print("READY", flush=True)
for line in sys.stdin:
    for at in range(0, int(line) << 20, 4096):
        memory[at] += 1
    print("WRITTEN", flush=True)
"""


class Screen:
    """A terminal with a program on it, and what is to be seen there."""

    def __init__(self, t, columns, rows):
        self.t, self.socket = t, os.path.join(t.folder, f"tmux.{columns}x{rows}")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "/bin/sh")
        self.type("PS1='$ '; clear; echo before; exec 2>&1\n")
        self.until("before")

    def tmux(self, *words):
        env = {key: value for key, value in self.t.env.items() if key not in ("TMUX", "LD_PRELOAD")}
        return subprocess.run(["tmux", "-S", self.socket, *words], env=env, capture_output=True, text=True, check=True, timeout=30).stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def key(self, name):
        self.tmux("send-keys", name)

    def text(self):
        return self.tmux("capture-pane", "-p")

    def until(self, pattern, timeout=20.0):
        seen = []

        def shown():
            seen[:] = [self.text()]
            return re.search(pattern, seen[0], re.S)
        try:
            self.t.wait_until(shown, f"{pattern!r} on the screen", timeout)
        except Exception as failure:
            raise type(failure)(f"{failure}; it shows:\n{seen[0]}") from None
        return seen[0]

    def end(self):
        self.tmux("kill-server")


def bytes_of(text):
    number, unit = re.fullmatch(r"([\d.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def dirty_of(text, pid):
    found = re.search(rf"^ *{pid} . +[\d.]+ +[\d.]+ \w+ +(-|[\d.]+ \w+)  ", text, re.M)
    check(found, f"no line of {pid} in\n{text}")
    return None if found[1] == "-" else bytes_of(found[1])


def large(t, group):
    """80x24: everything, a checkpoint, dirty memory, help, sorting."""
    pid = t.members()[0]["pid"]
    screen = Screen(t, 80, 24)
    screen.type(f"{t.cairn} top\n")
    text = screen.until(r"cairn top: session default, running.*COMMAND.*q quit")
    check("3 processes" in text and "next: at most" in text and "(no checkpoint yet)" in text, text)
    check(dirty_of(text, pid) is None and len(text.splitlines()) == 24, text)
    screen.type("c")
    text = screen.until(r"checkpoint 1: .*pause .*durable after")
    text = screen.until(r"GEN.*\n +1 +[\d.]+ MiB  pause .* ago")
    check(dirty_of(text, pid) < 2 << 20, text)
    group.send("8\n")
    group.expect("WRITTEN")
    t.wait_until(lambda: 8 << 20 <= dirty_of(screen.text(), pid) < 12 << 20, "8 MiB to be dirty")
    next_bytes = bytes_of(re.search(r"next: at most ([\d.]+ \w+) in ", screen.text())[1])
    check(8 << 20 <= next_bytes < 14 << 20, screen.text())
    screen.type("c")
    text = screen.until(r"GEN.*\n +2 +[\d.]+ MiB.*\n +1 ")
    stored = bytes_of(re.search(r"^ +2 +([\d.]+ MiB)", text, re.M)[1])
    check(8 << 20 <= stored <= next_bytes + (4 << 20), f"{next_bytes} were foreseen, and {stored} stored\n{text}")
    screen.type("h")
    screen.until("sort by the next of")
    screen.type("h")
    screen.until("COMMAND")
    screen.type("s")
    screen.until("sort: cpu")
    return screen


def without_coordinator(t, screen):
    os.kill(t.coordinator_pid(), signal.SIGKILL)
    text = screen.until("no coordinator: programs go on")
    check("COMMAND" in text, text)
    t.launch(["true"], terminal="none")
    screen.until(r"session default, running\s*\n3 processes")


def small(t, screen):
    """The same terminal becomes small."""
    screen.tmux("resize-window", "-x", "40", "-y", "10")
    text = screen.until(r"^cairn top: session default[^\n]*\n3 processes[^\n]*\nnext: [^\n]*\n *PID S[^\n]*\n")
    check(len(text.splitlines()) == 10 and max(map(len, text.splitlines())) <= 40, text)
    screen.type("q")
    screen.until(PROMPT)
    screen.end()


def restored(t):
    """The terminal is what it was before. (Of one that was resized meanwhile tmux brings back something else.)"""
    screen = Screen(t, 80, 12)
    screen.until(PROMPT)
    before = screen.text().rstrip()
    screen.type(f"{t.cairn} top --session $CAIRN_SESSION\n")
    screen.until("COMMAND")
    screen.type("q")
    text = screen.until(PROMPT).rstrip()
    check(text.startswith(before) and text.endswith("$") and "COMMAND" not in text, f"it was\n{before}\nand is\n{text}")
    screen.type("stty -a | grep -o ' icanon\\| echo ' | tr '\\n' ,; echo\n")
    screen.until(r"icanon,.* echo")
    screen.end()


def crowd(t):
    t.launch(["/bin/sh", "-c", "i=0; while [ $i -lt 97 ]; do sleep 1000 & i=$((i+1)); done; wait"], terminal="none")
    t.wait_until(lambda: len(t.members()) >= 101, "100 processes", 60)
    screen = Screen(t, 40, 10)
    screen.type(f"{t.cairn} top\n")
    screen.until(r"10\d processes.*PID S")
    screen.key("End")
    screen.type("s")
    screen.until(r"sort: cpu")
    screen.key("Home")
    screen.tmux("resize-window", "-x", "80", "-y", "24")
    screen.until(r"1-\d+ of 10\d")
    screen.key("NPage")
    screen.until(r"13-\d+ of 10\d")
    screen.key("C-c")
    screen.until(PROMPT)
    screen.end()
    code, out, err = t.command("top", "--once")
    check(code == 0 and len(re.findall("sleep 1000", out)) >= 97 and "\x1b" not in out and "q quit" not in out, f"{code} {out} {err}")


def for_scripts(t):
    code, out, err = t.command("top")  # no terminal
    check(code == 0 and "COMMAND" in out and "\x1b" not in out, f"{code} {out!r} {err}")
    code, out, err = t.command("top", "--json")
    said = json.loads(out)
    check(code == 0 and len(said["processes"]) == 3 and [each["generation"] for each in said["generations"]] == [2, 1], out)
    check(said["status"]["session"] == "default" and said["next"]["bytes"] > 0 and said["next"]["total_ns"] > 0, out)
    check(all(each["memory"] >= 0 and each["run_state"] in "SRD" and each["dirty"] is None for each in said["processes"]), out)
    code, _, err = t.command("top", "--session", "nobody")
    check(code == 5 and "nobody" in err, f"{code} {err}")
    code, _, err = t.command("top", "--twice")
    check(code == 2 and "cairn help top" in err, f"{code} {err}")


def test(t):
    group = t.launch(["/usr/bin/python3", "-c", WRITER])
    group.expect("READY")
    t.launch(["/bin/sh", "-c", "sleep 1000; true"], terminal="none")
    t.wait_members(3)
    screen = large(t, group)
    for_scripts(t)
    without_coordinator(t, screen)
    small(t, screen)
    restored(t)
    crowd(t)
    t.must("kill")
