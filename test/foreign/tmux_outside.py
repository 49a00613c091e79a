"""A tmux server inside whose clients are outside: a restart hangs up on them, and they attach again."""
# ci: exact user
import os
import shutil
from cairn_test import Skip


def test(t):
    if not shutil.which("tmux"):
        raise Skip("tmux isn't installed")
    with open(os.path.join(t.work, "tmux.conf"), "w") as file:
        file.write('set -g default-command "bash --norc --noprofile"\nset -g status-left "STATUS "\n')
        file.write("set -g assume-paste-time 0\n")  # what comes within a millisecond of other keys is a key all the same
    socket = os.path.join(t.work, "socket")
    tmux = ["tmux", "-S", socket, "-f", os.path.join(t.work, "tmux.conf")]
    t.launch([*tmux, "new-session", "-d", "-s", "one", "-x", "80", "-y", "24"], terminal="none", env={"PS1": "pane> "})
    t.wait_until(lambda: os.path.exists(socket), "tmux's socket")
    t.wait_members(2)

    def attach():
        client = t.launch([*tmux, "attach"], native=True, name="client")
        client.expect("STATUS")
        return client

    for number in range(t.rounds):
        client = attach()
        client.send(f"variable=$((variable + {number + 2})); clear; echo $variable | sed 's/^/value-/; s/$/-/'\r")
        client.expect(rf"value-{sum(range(2, number + 3))}-")
        if number % 2 == 0:  # else one is attached at the checkpoint
            client.send("\x02d")
            client.expect_exit(0)
        t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        t.restart(terminal="none")
        t.say(f"restart {number + 1}")
    client = attach()
    client.send("clear; echo $variable | sed 's/^/last-/; s/$/-/'\r")
    client.expect(rf"last-{sum(range(2, t.rounds + 2))}-")
    client.send("tmux kill-server\r")
    client.expect(r"server exited|exited")
