"""A self-contained checkpoint comes back without the program's file, and with the file when it is there as it was."""
import os
import shutil
from cairn_test import check


def test(t):
    t.must("coordinator", "--daemon")
    own = os.path.join(t.work, "own-sleep")
    shutil.copy("/bin/sleep", own)
    t.launch([own, "1000"], terminal="none")  # and the checkpoint alone is asked to be so
    t.wait_members(1)
    t.checkpoint("--self-contained")
    t.pull_the_plug()
    for present in (True, False):
        if not present:
            os.unlink(own)
        program = t.restart(terminal="none")
        t.sleep(0.2)
        with open(program.errors) as file:
            said = file.read()
        check(("the image's copy is used" in said) == (not present), said)
        pid = t.members()[0]["pid"]
        check(len(t.members()) == 1, f"members: {t.members()}")
        t.say(f"program's file {'present' if present else 'gone'}: {pid} runs")
        t.pull_the_plug()
