"""qemu's user mode: a program of this machine's own kind that it interprets loads libcairn.so a second time, which no agent can run: the checkpoint is refused, the program goes on, and
with -U LD_PRELOAD, as the refusal says, it is saved. (at_work.py has it at work.)"""
# ci: none (its packages are heavy: where they are installed)
import shutil
from cairn_test import Skip, check


def test(t):
    if not shutil.which("qemu-x86_64"):
        raise Skip("qemu-x86_64 isn't installed")
    program = t.launch(["qemu-x86_64", "/bin/sh", "-c", "while read line; do echo got $line; done"], name="interpreted")
    program.send("a\r")
    program.expect("got a")
    code, _, err = t.command("checkpoint")
    check(code == 3 and "-U LD_PRELOAD" in err, f"{code}: {err}")
    program.send("b\r")
    program.expect("got b")
    t.must("kill")
    program.exit_status()
    program = t.launch(["qemu-x86_64", "-U", "LD_PRELOAD", "/bin/sh", "-c", "while read line; do echo got $line; done"], name="without")
    program.send("c\r")
    program.expect("got c")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        program.terminal.drain()
        program.terminal.skip()
        program.send(f"d{number}\r")
        program.expect(f"got d{number}")
