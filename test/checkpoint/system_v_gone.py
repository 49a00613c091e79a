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
    options = {"semaphores": "-s", "messages": "-q", "sysv": "-m"}
    found = []

    def look(value):
        if isinstance(value, dict):
            if value.get("type") in options and value.get("extra"):
                found.append((options[value["type"]], id_in(bytes.fromhex(value["extra"]))))
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                look(each)

    look(json.loads(out))
    return found


def id_in(packed):
    """The field "id" of a MessagePack map."""
    at = packed.index(b"\xa2id") + 3
    first = packed[at]
    if first < 0x80:
        return first
    length = {0xcc: 1, 0xcd: 2, 0xce: 4, 0xd0: 1, 0xd1: 2, 0xd2: 4}[first]
    return int.from_bytes(packed[at + 1:at + 1 + length], "big")


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
