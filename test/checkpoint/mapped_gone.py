#!/usr/bin/python3
"""A file that is written to by a mapping only is gone at the restart, and so is its folder: both are made again, and a line
says so. One that is there is used as it is."""
import os
import shutil
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import check, main
from cairn_test.repeated import expect


def test(t):
    folder = os.path.join(t.work, "inner")
    os.mkdir(folder)
    path = os.path.join(folder, "mapped")
    program = t.launch([os.path.join(t.build, "test", "checkpoint", "mapped_gone"), path],
                       env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    expect(program, "READY")
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        if number % 3 == 0:
            os.unlink(path)
        if number % 3 == 1:
            shutil.rmtree(folder)
        program = t.restart(name=f"restart {number + 1}")
        with open(program.errors) as file:
            said = file.read()
        check((f"{path}, which is written to by a mapping, is gone: made again" in said) == (number % 3 != 2), said)
        check((f"{folder} is gone: made again" in said) == (number % 3 == 1), said)
        t.order(f"check {number}")
        expect(program, f"CHECKED {number}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
