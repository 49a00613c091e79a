"""The file of a listening Unix socket is gone at the restart, or its whole folder: both are made again, and for the folder a line
says so."""
# ci: exact user
import os
import shutil
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def test(t):
    folder = os.path.join(t.work, "inner")
    os.mkdir(folder)
    path = os.path.join(folder, "socket")
    program = begin(t, "unix_gone", path)
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        if number % 3 == 0:
            shutil.rmtree(folder)
        if number % 3 == 1:
            os.unlink(path)
        program = t.restart(name=f"restart {number + 1}")
        with open(program.errors) as file:
            said = file.read()
        check((f"{folder} is gone: made again" in said) == (number % 3 == 0), said)
        ask(t, program, number)
    finish(t, program)
