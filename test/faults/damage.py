#!/usr/bin/python3
"""An image is truncated, has a bit flipped in each section, or is of another version: refused by name, nothing is
started; the folder as it was restarts."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import re
import shutil
from cairn_test import check, main, processes
from cairn_test.ticking import Ticking


def test(t):
    group = Ticking(t, children=1)
    good = group.checkpoint_works("before any fault")
    t.pull_the_plug()
    copy = os.path.join(t.folder, "copy")
    images = sorted(name for name in os.listdir(good) if name.endswith(".image"))
    check(len(images) >= 3, f"images: {images}")

    def refused(what, codes=(4,)):
        code, out, err = t.command("restart", copy, f"--ids={t.ids}", timeout=30)
        check(code in codes, f"{what}: 'cairn restart' ended with {code}: {err or out}")
        check(len(err.strip()) > 20, f"{what}: no message: {err!r}")
        left = [pid for pid in processes.descendants() if "python3" in processes.command_line(pid)]
        check(not left, f"{what}: refused, but {left} run")
        return err.strip().splitlines()[0]

    def fresh():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(good, copy)

    def flip(name, offset, bit=0):
        with open(os.path.join(copy, name), "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ (1 << bit)]))

    for name in images:
        size = os.path.getsize(os.path.join(good, name))
        for length in (0, 10, size // 2, size - 1):
            fresh()
            os.truncate(os.path.join(copy, name), length)
            message = refused(f"{name} cut to {length} of {size} bytes")
            check(name in message, f"{name} cut to {length}: the message does not name it: {message}")
        t.say(f"{name} cut: {message}")
        # A bit in each stretch of the file: header, page data, metadata, table, footer.
        for offset in sorted({0, 9, size // 4, size // 2, 3 * size // 4, size - 2000, size - 100, size - 9, size - 1}):
            if 0 <= offset < size:
                fresh()
                flip(name, offset, t.random.randrange(8))
                with open(os.path.join(good, name), "rb") as file:
                    file.seek(offset & ~4095)
                message = refused(f"{name} with a bit flipped at {offset} of {size}")
        t.say(f"{name} flipped: {message}")
    fresh()
    os.unlink(os.path.join(copy, images[0]))
    t.say(refused(f"{images[0]} missing", (1, 4)))
    fresh()
    path = os.path.join(copy, "manifest.json")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(re.sub(r'"version":\s*1\b', '"version": 99', text))
    t.say(refused("manifest of another version"))
    for cut in (0, len(text) // 2):
        with open(path, "w") as file:
            file.write(text[:cut])
        t.say(refused("manifest cut"))
    fresh()
    group.program = t.restart(script=os.path.join(good, "restart.sh"))
    group.all_tick("after a restart of the undamaged one")


main(test)
