"""Compressed images: half of what half-compressible memory takes, whole after a restart (eager and lazy), refused by name when a byte of them is another; wrong words for --compress are refused."""
# ci: user
import json
import os
import re
import shutil
from cairn_test import check, processes

# Half of each page is random, half of it is one word. A fork shares the pages, and changes some.
PROGRAM = r"""
import hashlib, mmap, os, sys
size = 32 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, 4096):
    memory[at:at + 4096] = os.urandom(2048) + b"compress" * 256
reads, writes = os.pipe()
answers, answer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writes)
    while word := os.read(reads, 100):
        memory[4096 * 17] ^= 1
        os.write(answer, hashlib.sha256(memory).hexdigest().encode())
    os._exit(0)
os.close(reads)
print("READY", flush=True)
for line in sys.stdin:
    os.write(writes, b"?")
    print(line.strip(), hashlib.sha256(memory).hexdigest(), os.read(answers, 100).decode(), flush=True)
    memory[0] = (memory[0] + 1) % 256
"""


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        return json.load(file)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 16]))


def test(t):
    for wrong in ("gzip", "zstd:20", "zstd:", "lz4:3"):
        code, out, err = t.run([t.cairn, "launch", "--compress", wrong, "true"])
        check(code == 2 and "none, auto, lz4, zstd or zstd:LEVEL" in err, f"launch --compress {wrong}: {code} {out} {err}")
    t.env["CAIRN_FULL"] = "1"
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM], options=["--compress", "zstd"])
    program.expect("READY")
    t.wait_members(2)
    number = 0

    def ask():
        nonlocal number
        number += 1
        program.send(f"{number}\n")
        return program.expect(rf"{number} (\w+) (\w+)\r?\n").groups()

    code, out, err = t.command("checkpoint", "--compress", "brotli")
    check(code == 2 and "none, auto, lz4, zstd or zstd:LEVEL" in err, f"checkpoint --compress brotli: {code} {out} {err}")
    check(t.status()["compress"] == "zstd", f"status: {t.status()}")
    sizes, folders = {}, {}
    for how in (None, "none", "lz4", "auto", "zstd:5", None):
        folders[how] = t.checkpoint(*(["--compress", how] if how else []))
        sizes[how] = manifest_of(folders[how])["bytes"]
        ask()
    memory = 32 << 20
    t.say(f"32 MiB of which half can be compressed: {sizes}")
    check(sizes["none"] > memory, f"{sizes}")
    check(sizes[None] < 0.55 * memory + (3 << 20) and sizes["zstd:5"] < 0.55 * memory + (3 << 20), f"zstd: {sizes}")
    check(sizes["lz4"] < 0.6 * memory + (3 << 20), f"lz4: {sizes}")
    before = ask()
    last = t.checkpoint()
    after = ask()
    check(before != after, "it stands still")
    ways = [[], ["--lazy"]] if t.mode == "exact" else [[]]
    for way in ways:
        t.pull_the_plug()
        program = t.restart(*way, script=os.path.join(last, "restart.sh"))
        check(ask() == after, f"the restart {way} went on with other memory")
    for how in ("--verify", "--stacks"):
        code, out, err = t.command("inspect", how, last)
        check(code == 0, f"inspect {how}: {code} {out} {err}")
    code, out, err = t.command("inspect", "--grep", "import hashlib, mmap", last)
    check(code == 0 and "import hashlib" in out, f"inspect --grep: {code} {out[-500:]} {err}")
    t.pull_the_plug()

    copy = os.path.join(t.folder, "copy")
    shutil.copytree(last, copy)
    image = next(os.path.join(copy, each["file"]) for each in manifest_of(copy)["images"] if each["pid"] == program.pid or each["bytes"] > memory // 4)
    flip(image, os.path.getsize(image) // 2)
    for what in (["inspect", "--verify", copy], *(["restart", *way, copy, f"--ids={t.ids}"] for way in [[]])):
        code, out, err = t.command(*what, timeout=30)
        check(code == 4 and re.search(rf"{os.path.basename(image)}.*damaged", out + err), f"{what}: {code} {out} {err}")
        t.say((err or out).strip().splitlines()[-1])
        left = [pid for pid in processes.descendants() if "python3" in processes.command_line(pid)]
        check(not left, f"{what}: refused, but {left} run")
    program = t.restart(script=os.path.join(last, "restart.sh"))
    check(ask() == after, "the image that nobody has damaged went on with other memory")
