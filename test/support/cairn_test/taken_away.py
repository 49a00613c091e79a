"""A file of a program's in a folder of its own, which others take away while nothing runs: its name, then the whole folder."""
import os
import shutil
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def take_away(t, program_name, of_the_file=None):
    """The program is given the file's path. `of_the_file`: what a restart says behind that path where the file was gone; None: nothing that is
    looked for. Of the folder it always says a line."""
    folder = os.path.join(t.work, "inner")
    os.mkdir(folder)
    path = os.path.join(folder, "file")
    program = begin(t, program_name, path)
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
        if of_the_file is not None:
            check((path + of_the_file in said) == (number % 3 != 2), said)
        check((f"{folder} is gone: made again" in said) == (number % 3 == 1), said)
        ask(t, program, number)
    finish(t, program)
