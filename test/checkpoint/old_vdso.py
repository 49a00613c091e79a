"""A restart takes the image's vdso for another kernel's (CAIRN_OLD_VDSO): its functions lead to the running kernel's, and after
several restarts from one to the next; those in between are as on one kernel. What can't be brought to another kernel, because a signal
has come in the middle of such a function, is refused by name, and the next checkpoint hasn't got it."""
# ci: exact user
from cairn_test import check
from cairn_test.serving import ask, begin, finish
REFUSED = 3  # exit code


def checkpoint_for_another_kernel(t):
    refused = 0
    while True:
        t.checkpoint()
        code, _, said = t.command("restart", "--check", t.latest())
        if code == 0:
            return refused
        refused += 1
        check(code == REFUSED and "was inside the vdso of the checkpoint's kernel" in said, f"restart --check ended with {code}: {said}")
        check(refused < 50, f"{refused} checkpoints in a row can't be brought to another kernel: {said}")


def test(t):
    refused = 0
    for name in ("clocks", "libraries", "threads"):
        program = begin(t, name)
        for number in range(t.rounds):
            t.env["CAIRN_OLD_VDSO"] = "1"
            if number % 3 == 1:
                del t.env["CAIRN_OLD_VDSO"]
            refused += checkpoint_for_another_kernel(t)
            t.pull_the_plug(number % 2 == 1)
            program = t.restart(name=f"restart {number + 1} of {name}")
            ask(t, program, number)
        finish(t, program)
    t.say(f"{refused} checkpoints were for the same kernel only")
