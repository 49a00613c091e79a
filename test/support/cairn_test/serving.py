"""Programs of test/checkpoint, which serve orders (test/checkpoint/support.h): begun, asked to check themselves, told to end."""

import os

from . import Skip
from .session import Again, Failure


def expect(program, line, timeout=60):
    found = program.expect(rf"({line}|FAILED[^\r\n]*)\r?\n", timeout=timeout)
    if found[1].startswith(b"FAILED"):
        raise Failure(found[1].decode())
    return found


def begin(t, name, *arguments, env=None, **options):
    """Launches test/checkpoint/NAME and waits until it is ready; skips the test if the program says that it can't run here."""
    path, order = os.path.join(t.build, "test", "checkpoint", name), os.path.join(t.work, "command")
    if os.path.exists(order):
        os.unlink(order)  # another program's last
    program = t.launch([path, *arguments], **options,
                       env={"CAIRN_TEST_COMMAND": order, "CAIRN_TEST_MODE": t.mode, **(env or {})})
    found = expect(program, r"READY|SKIP[^\r\n]*")
    if found[1].startswith(b"SKIP"):
        raise Skip(found[1].decode())
    return program


def cycle(t, program, number):
    """t.cycle(); begins anew where somebody else has got what the whole machine has one of in the meantime."""
    program, _ = t.cycle(program, number)
    said = t.text_of(program)
    if "its number is taken" in said:
        raise Again("another program has taken the pseudo-terminal's number")
    if "is taken: an MPTCP socket that was bound to it is at" in said:
        raise Again("another program has taken the port of an MPTCP socket")
    return program


def ask(t, program, what):
    """It checks everything that it has set up."""
    t.order(f"check {what}")
    expect(program, f"CHECKED {what}")


def finish(t, program):
    """Its last check."""
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)
