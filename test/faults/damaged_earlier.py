"""An image of an earlier generation that a checkpoint needs has lost a byte, or is gone: each generation that needs it is refused
by name, by `inspect --verify` and by a restart, eager and lazy; a full one that doesn't need it goes on."""
# ci: exact user
import json
import os
import shutil
from cairn_test import check, processes

PROGRAM = r"""
import os, sys, time
memory = bytearray(os.urandom(4 << 20))
number = 0
while True:
    memory[(number % 100) * 4096] ^= 1
    number += 1
    print(f"tick {number}", flush=True)
    time.sleep(0.02)
"""


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        return json.load(file)


def damage(path, runs):
    """Flips a bit in the pages that are needed."""
    at, length, offset, _ = max(runs, key=lambda run: run[1])
    with open(path, "r+b") as file:
        file.seek(offset + length // 2)
        byte = file.read(1)[0]
        file.seek(offset + length // 2)
        file.write(bytes([byte ^ 4]))


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM])
    program.expect(r"tick 10\r?\n")
    first = t.checkpoint()
    check(not manifest_of(first).get("earlier"), "the first checkpoint needs an earlier one")
    t.sleep(0.3)
    second = t.checkpoint()
    images = [image["file"] for image in manifest_of(second)["earlier"]]
    check(len(images) == 1 and os.path.samefile(os.path.join(second, images[0]), os.path.join(first, f"p{program.pid}.image")),
          f"the second checkpoint needs {images}")
    check(manifest_of(second)["bytes"] < 3 << 20, f"{manifest_of(second)['bytes']} bytes of a program that has changed a hundred pages")
    t.pull_the_plug()
    # A copy stands alone, the links are files in it.
    copy = os.path.join(t.folder, "copy")
    shutil.copytree(second, copy)
    code, out, err = t.command("inspect", "--verify", copy)
    check(code == 0, f"a copy: {code}: {out}{err}")
    process = json.loads(t.must("inspect", "--json", copy))["processes"][0]
    runs = [run for area in process["areas"] for part in area.get("borrowed", []) if part.get("file") == images[0] for run in part["pages"]]
    path = os.path.join(copy, images[0])
    damage(path, runs)

    def refused(what, *command):
        code, out, err = t.command(*command, timeout=30)
        check(code == 4 and images[0] in out + err, f"{what}: {code}: {out}{err}")
        t.say(f"{what}: {(err or out).strip().splitlines()[-1]}")
        left = [pid for pid in processes.descendants() if "python3" in processes.command_line(pid)]
        check(not left, f"{what}: refused, but {left} run")

    refused("verify", "inspect", "--verify", copy)
    refused("eager", "restart", "--eager", copy, f"--ids={t.ids}")
    os.truncate(path, os.path.getsize(path) - 1)
    refused("cut", "restart", copy, f"--ids={t.ids}")
    os.unlink(path)
    refused("gone", "restart", copy, f"--ids={t.ids}")
    # Each of the others goes on: the older, and the newer when the older is gone.
    restarted = t.restart(script=os.path.join(first, "restart.sh"))
    restarted.expect(r"tick \d+\r?\n")
    t.pull_the_plug()
    shutil.rmtree(first)
    restarted = t.restart(script=os.path.join(second, "restart.sh"))
    restarted.expect(r"tick \d+\r?\n.*tick \d+\r?\n")
    # Now from the images of a generation whose folder has gone.
    third = t.checkpoint()
    check(images[0] in [image["file"] for image in manifest_of(third)["earlier"]], "the oldest image isn't used any more")
    t.pull_the_plug()
    t.env["CAIRN_FULL"] = "1"
    restarted = t.restart(script=os.path.join(third, "restart.sh"))
    restarted.expect(r"tick \d+\r?\n")
    whole = t.checkpoint()
    check(not manifest_of(whole).get("earlier") and manifest_of(whole)["bytes"] > 4 << 20, "CAIRN_FULL=1 hasn't stored everything")
    t.pull_the_plug()
    for folder in second, third:
        shutil.rmtree(folder)
    restarted = t.restart(script=os.path.join(whole, "restart.sh"))
    restarted.expect(r"tick \d+\r?\n")
