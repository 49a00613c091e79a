"""Keyrings are noted by a checkpoint, and by `cairn inspect` of it; the program keeps them. Nobody else is named."""
# ci: exact user
import json
import re
from cairn_test import check
from cairn_test.serving import ask, begin, finish

NOTES = [r"has a process keyring with 1 key: not saved", r"has a thread \(\d+\) keyring with 1 key: not saved",
         r"has a session keyring with 2 keys: not saved"]


def test(t):
    program = begin(t, "keyrings")
    for number in range(t.rounds):
        code, out, err = t.command("checkpoint", "--json")  # without it notes are told once
        check(code == 0, f"'cairn checkpoint' ended with {code}: {err}")
        _, shown, _ = t.command("inspect", t.ckptdir)
        for note in NOTES:
            for where, text in (("the checkpoint", "\n".join(json.loads(out)["notes"])), ("cairn inspect", shown)):
                check(len(re.findall(note, text)) == 1, f"{where} says {text!r}, and not once {note!r}")
        ask(t, program, number)
    finish(t, program)
