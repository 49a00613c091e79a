"""A tmux server with panes, its client inside: what one types reaches the pane, the screen is drawn again."""
# ci: exact user
import os
import shutil
from cairn_test import Skip, check

CONFIGURATION = """
set -g status-left "STATUS "
set -g status-right "#{window_panes} panes"
set -g default-command "bash --norc --noprofile"
set -g escape-time 10
set -g history-limit 5000
set -g assume-paste-time 0
"""


def test(t):
    if not shutil.which("tmux"):
        raise Skip("tmux isn't installed")
    with open(os.path.join(t.work, "tmux.conf"), "w") as file:
        file.write(CONFIGURATION)
    tmux = ["tmux", "-S", os.path.join(t.work, "socket"), "-f", os.path.join(t.work, "tmux.conf")]

    def count(what):
        code, out, err = t.run([*tmux, what])
        check(code == 0, f"tmux {what} from outside: {code} {out}{err}")
        return len(out.splitlines())

    program = t.launch([*tmux, "new-session", "-s", "one"])
    program.expect("STATUS")
    t.sleep(0.3)
    program.send("tmux split-window -h\r")
    program.expect("2 panes")
    t.sleep(0.3)
    ticks = os.path.join(t.work, "ticks")
    program.send("clear; while sleep 0.02; do echo tick >> ticks; done\r")  # the second pane is at work
    t.wait_until(lambda: os.path.exists(ticks), "the second pane to be at work")
    program.send("\x02o")  # to the first one
    t.sleep(0.3)
    program.send("variable=0; clear\r")
    t.sleep(0.3)
    for number in range(t.rounds):
        program.send("half a li")
        t.sleep(0.2)
        program, _ = t.cycle(program, number)
        program.send("\x15")
        program.send("variable=$((variable + 7)); echo answer-$((variable * 3))-\r")
        program.expect(rf"answer-{(number + 1) * 21}-")
        size = os.path.getsize(ticks)
        t.wait_until(lambda: os.path.getsize(ticks) > size + 25, "the second pane to go on")
        # A new window, with a program that ends: the server hears of it.
        program.send("\x02c")
        t.wait_until(lambda: count("list-windows") == 2, "the new window")
        # It ends when it is told to: tmux doesn't draw what a window says that is gone at once.
        program.send(f"echo window $((500 + {number}))-; read; exit\r")
        program.expect(rf"window {500 + number}-")
        program.send("\r")
        t.wait_until(lambda: count("list-windows") == 1, "the new window to be gone")
        program.terminal.resize(30 + number, 100)
        # Told by a file: while tmux draws all anew, a word can come in two pieces.
        program.send("until [ $(stty size | cut -d' ' -f1) = " + str(29 + number) + f" ]; do sleep 0.05; done; touch sized-{number}\r")
        t.wait_until(lambda: os.path.exists(os.path.join(t.work, f"sized-{number}")), "the pane's new size")
        # A client that begins inside after the restart.
        program.send("clear; tmux list-panes | wc -l | sed 's/^/inside-/'\r")
        program.expect("inside-2")
        check(count("list-panes") == 2, "the server doesn't know of two panes")
    program.send("tmux kill-session\r")
    program.expect_exit(0)
