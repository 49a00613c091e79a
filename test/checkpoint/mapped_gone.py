"""A file that is written to by a mapping only is gone at the restart, and so is its folder: both are made again, and a line
says so. One that is there is used as it is."""
# ci: exact user
import os
import shutil
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def test(t):
    folder = os.path.join(t.work, "inner")
    os.mkdir(folder)
    path = os.path.join(folder, "mapped")
    program = begin(t, "mapped_gone", path)
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
        ask(t, program, number)
    finish(t, program)
