"""With --track-mem a process that hardly writes anything is copied in the pause, and not forked: a restart from any generation
has what was there, of one process, of two beside each other, and of two of which one is the other's child. With a limit of no more processes it is seen that nobody forks, and that
who writes much is forked for."""
# ci: exact user
import json
import os
import random
import re
from cairn_test import check
from cairn_test.serving import expect

UNFORKED = "couldn't be forked"


class Programs:
    """So many of them, on one terminal: a shell's. A family is one of them, and answers as two."""

    def __init__(self, t, kind, count):
        self.t, self.count = t, 2 if kind == "family" else count
        path, order = os.path.join(t.build, "test", "checkpoint", "hardly_written"), os.path.join(t.work, "command")
        if os.path.exists(order):
            os.unlink(order)
        each = f"'{path}' {kind}"
        command = ["/bin/sh", "-c", f"{each} & " * count + "wait"]
        self.terminal = t.launch(command, options=["--keep", "4", "--track-mem"],
                                 env={"CAIRN_TEST_COMMAND": order, "CAIRN_TEST_MODE": t.mode})
        self.expect("READY")

    def expect(self, line):
        for _ in range(self.count):
            expect(self.terminal, line)

    def ask(self, what):
        self.t.order(f"check {what}")
        self.expect(f"CHECKED {what}")

    def finish(self):
        self.t.order("go")
        self.expect("EXIT-SUCCESS")
        self.terminal.expect_exit(0)


def notes(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        return " ".join(json.load(file)["notes"])


def rounds_of(t, kind, count, rounds):
    """Some pages are written to before each checkpoint; now and then one of the last three generations goes on."""
    chance = random.Random(t.arguments.seed)
    programs = Programs(t, kind, count)
    kept = []
    for number in range(rounds):
        # In a family that has written nothing a child's areas have nothing but what was borrowed, of its parent and
        # of its own earlier images.
        nothing = kind == "family" and number % 4 == 3
        share = 0 if nothing else chance.choice([0, 1, 1, 1, 2, 3, 30])
        programs.ask(f"{kind}-{number}-write-{share}")
        kept = [*kept[-2:], t.checkpoint("--track-mem", "--compress", chance.choice(["none", "none", "lz4"]))]
        if kind == "family" and number == 0 and share < 4:
            common_is_stored_once(kept[0])
        if not nothing and chance.random() < 0.7:
            continue
        t.pull_the_plug(spare_coordinator=chance.random() < 0.5)
        script = os.path.join(kept[-1] if nothing else chance.choice(kept), "restart.sh")
        programs.terminal = t.restart("--files=use", script=script, name=f"{count} {kind} restart {number}")
        programs.ask(f"{kind}-{number}-again")
        kept = []
    programs.finish()


def child_is_believed(t):
    """Pages of a child's own are named unread as those of its parent are: 24 MiB behind the 120 of the parent's."""
    t.env["CAIRN_TRACK_CHECK"] = "1"
    programs = Programs(t, "family", 1)
    for number in range(4):
        programs.ask(f"believed-{number}-write-1")
        said = notes(t.checkpoint("--track-mem"))
    believed = sum(int(found) for found in re.findall(r"(\d+) pages are unchanged", said))
    check(believed > (120 + 16) * 256, f"the kernel was not asked about the child's own memory: {said}")
    del t.env["CAIRN_TRACK_CHECK"]
    t.pull_the_plug()  # the coordinator, too, which has it


def common_is_stored_once(folder):
    bytes_ = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    check(bytes_ < (96 + 2 * 24 + 16) << 20, f"what two processes have in common was stored twice: {bytes_ >> 20} MiB")


def nobody_forks(t, count):
    """A superuser has no such limit, and the shell hasn't."""
    programs = Programs(t, "plain", count)
    for number in range(3):
        programs.ask(f"before-{number}-write-1")
        check(UNFORKED not in notes(t.checkpoint()), "they were forked for the first checkpoints")
    programs.ask("limit")
    for number in range(3):
        programs.ask(f"little-{number}-write-1")
        said = notes(t.checkpoint())
        check(UNFORKED not in said, f"checkpoint {number} of who has written little forks: {said}")
    programs.ask("much-write-40")
    said = notes(t.checkpoint())
    check(UNFORKED in said, f"the checkpoint of who has written much says nothing of the fork that failed: {said}")
    check("RLIMIT_NPROC" in said, f"that it is the program's own limit isn't told: {said}")
    programs.finish()


def test(t):
    child_is_believed(t)
    rounds = 100 if t.soak else 12
    for kind, count in ("plain", 1), ("marked", 1), ("plain", 2), ("family", 1):
        rounds_of(t, kind, count, rounds)
    if t.mode == "user":
        for count in 1, 2:
            nobody_forks(t, count)
