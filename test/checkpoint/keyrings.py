#!/usr/bin/python3
"""Keyrings are noted by a checkpoint, and by `cairn inspect` of it; the program keeps them. Nobody else is named."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import re
from cairn_test import Skip, check, main
from cairn_test.repeated import expect

NOTES = [r"has a process keyring with 1 key: not saved", r"has a thread \(\d+\) keyring with 1 key: not saved",
         r"has a session keyring with 2 keys: not saved"]


def test(t):
    path = os.path.join(t.build, "test", "checkpoint")
    program = t.launch([os.path.join(path, "keyrings")], env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    found = program.expect(r"^(READY|SKIP[^\r\n]*|FAILED[^\r\n]*)\r?\n")
    check(not found[1].startswith(b"FAILED"), found[1])
    if found[1].startswith(b"SKIP"):
        raise Skip(found[1].decode())
    for number in range(t.rounds):
        code, out, err = t.command("checkpoint")
        check(code == 0, f"'cairn checkpoint' ended with {code}: {err}")
        _, shown, _ = t.command("inspect", t.ckptdir)
        for note in NOTES:
            for where, text in (("the checkpoint", out + err), ("cairn inspect", shown)):
                check(len(re.findall(note, text)) == 1, f"{where} says {text!r}, and not once {note!r}")
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
