"""System V objects that are gone by the restart, as after a reboot: made again, by their old ids as root, else by other
ones that the program is not told of. system_v_gone.py linked|preloaded: who calls the kernel is system_v_by_syscall.c."""
# ci: exact user
# soak system_v_linked: linked
# soak system_v_preloaded: preloaded
import json
import os
import subprocess
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def objects_of(t, folder):
    """(ipcrm's option, id) of all in a checkpoint."""
    code, out, err = t.command("inspect", "--json", folder)
    check(code == 0, err)
    options = {"semaphores": "-s", "messages": "-q", "segment": "-m"}
    return [(options[kind], saved["permissions"]["id"])
            for image in json.loads(out)["objects"] for entry in image["objects"]
            for kind, saved in (entry["what"] | entry["what"].get("memory", {})).items() if kind in options]


def test(t):
    way = t.arguments.names[0] if t.arguments.names else ""
    library = os.path.join(t.build, "test", "checkpoint", "libsystem_v_by_syscall.so")
    program = begin(t, "system_v_by_syscall" if way == "linked" else "system_v",
                    env={"LD_PRELOAD": library} if way == "preloaded" else {})
    known = []
    for number in range(t.rounds):
        folder = t.checkpoint()
        t.pull_the_plug(number % 2 == 1)
        found = objects_of(t, folder)
        check(len(found) == 7, f"{len(found)} System V objects in the image: {found}")
        check(not known or sorted(found) == known, f"the program knows other ids than before: {found}, {known}")
        known = sorted(found)
        for option, number_of_it in found:
            subprocess.run(["ipcrm", option, str(number_of_it)], stderr=subprocess.DEVNULL)
        program = t.restart(name=f"restart {number + 1}")
        ask(t, program, number)
    finish(t, program)
