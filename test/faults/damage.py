"""An image is truncated, has a bit flipped in each section, or is of another version: refused by name, nothing is
started; the folder as it was restarts."""
import os
import json
import re
import shutil
import struct
from cairn_test import check, processes
from cairn_test.ticking import Ticking


def page_runs(value):
    """All runs in what `cairn inspect --json` says of an image: lists of [address, length, offset, hash]; but for those that are borrowed
    of another image."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "borrowed":
                continue
            if key == "pages":
                yield from each
            else:
                yield from page_runs(each)
    elif isinstance(value, list):
        for each in value:
            yield from page_runs(each)


def vdso_runs(value):
    """The runs of the area that has the kernel's vdso: a restart on the same kernel hardly needs them."""
    if isinstance(value, dict):
        if value.get("kind") == "vdso":
            yield from value["pages"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from vdso_runs(each)


def places(t, path):
    """(what, first byte, length) of everything in an image that has a checksum; docs/image-format.md."""
    with open(path, "rb") as file:
        data = file.read()
    footer = len(data) - 64
    check(data[footer:footer + 8] == b"CRNfoot1", f"{path} has no footer")
    data_end, table, count, entry = struct.unpack_from("<QQII", data, footer + 16)
    check(entry == 32 and table + count * entry == footer, f"{path}: section table at {table}, {count} entries")
    found = [("header", 0, 64), ("section table", table, count * entry), ("footer", footer, 64)]
    for number in range(count):
        kind, _, at, length, _ = struct.unpack_from("<4sIQQQ", data, table + number * entry)
        found.append((f"section {kind.decode()}", at, length))
    whole = json.loads(t.must("inspect", "--json", path))  # the folder's objects image is there as well
    own = [image for part in whole.values() if isinstance(part, list) for image in part
           if isinstance(image, dict) and os.path.samefile(image.get("image", "/"), path)]
    runs = list(page_runs(own))
    check(all(4096 <= offset and offset + length <= data_end for _, length, offset, _ in runs), f"{path}: {runs}")
    runs.sort(key=lambda run: run[2])
    vdso = list(vdso_runs(own))
    check(vdso or "objects" in path, f"{path} has no vdso")
    for run in [runs[0], runs[-1], t.random.choice(runs), *vdso] if runs else []:
        found.append((f"pages of {run[0]:#x}", run[2], run[1]))
    return found


def test(t):
    group = Ticking(t, children=1)
    good = group.checkpoint_works("before any fault")
    t.pull_the_plug()
    copy = os.path.join(t.folder, "copy")
    images = sorted(name for name in os.listdir(good) if name.endswith(".image"))
    check(len(images) >= 3, f"images: {images}")
    ticked = group.counts()

    def refused(what, codes=(4,)):
        code, out, err = t.command("restart", copy, f"--ids={t.ids}", timeout=30)
        check(code in codes, f"{what}: 'cairn restart' ended with {code}: {err or out}")
        check(len(err.strip()) > 20, f"{what}: no message: {err!r}")
        left = [pid for pid in processes.descendants() if "python3" in processes.command_line(pid)]
        check(not left, f"{what}: refused, but {left} run")
        check(group.counts() == ticked, f"{what}: refused, but the programs went on before: {ticked}, {group.counts()}")
        return err.strip().splitlines()[-1]

    def fresh():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(good, copy)

    def flip(name, offset):
        with open(os.path.join(copy, name), "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ (1 << t.random.randrange(8))]))

    kinds = set()
    for name in images:
        size = os.path.getsize(os.path.join(good, name))
        for length in (0, 10, size // 2, size - 1):
            fresh()
            os.truncate(os.path.join(copy, name), length)
            message = refused(f"{name} cut to {length} of {size} bytes")
            check(name in message, f"{name} cut to {length}: the message does not name it: {message}")
        t.say(f"{name} cut: {message}")
        for what, at, length in places(t, os.path.join(good, name)):
            kinds.add((name[0], what.split()[0]))
            offset = at + t.random.randrange(length)
            fresh()
            flip(name, offset)
            message = refused(f"{name} with a bit flipped at {offset} of {size}, {what}")
            check(name in message, f"{name}, {what} flipped: the message does not name it: {message}")
            t.say(f"{name}, {what} flipped: {message}")
    check(kinds == {(kind, what) for kind in "op" for what in ("header", "section", "footer", "pages")},
          f"only these were in the images: {kinds}")
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
