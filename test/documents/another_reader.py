"""docs/image-format.md and docs/protocol.md are enough: a client and a reader written from them alone, with other people's
libraries for MessagePack and XXH3, agree with the running program and with `cairn inspect`."""
import os
import json
import mmap
import signal
import socket
import struct
import msgpack
import xxhash
from cairn_test import check

PROGRAM = """
import ctypes, mmap, os, signal, sys
memory = mmap.mmap(-1, 3 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[5 * 4096:5 * 4096 + 11] = b"find me if "
memory[700 * 4096 - 4:700 * 4096 + 4] = b"you can."
file = open(sys.argv[1]); file.seek(3)
os.dup2(file.fileno(), 77)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, 5000, 60)
print(os.getpid(), ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
signal.pause()
"""


class Client:
    """docs/protocol.md, Transport."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(os.path.join(folder, "socket"))

    def ask(self, verb, **fields):
        self.socket.send(json.dumps({"verb": verb, "id": verb, **fields}).encode())
        events = []
        while not events or events[-1]["event"] not in ("done", "failed"):
            events.append(json.loads(self.socket.recv(256 * 1024)))
            check(events[-1].get("id") == verb, f"an event of {verb} without its id: {events[-1]}")
        return events


def digest(data):
    return xxhash.xxh3_64_intdigest(bytes(data), seed=0)


class Image:
    """docs/image-format.md, The container."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        magic, version, order, machine, self.kind, page, number = struct.unpack_from("<8sIIIIQQ", self.data, 0)
        check(magic == b"\x89CRN\r\n\x1a\n" and order == 0x01020304, f"{path}: magic {magic}, byte order {order:#x}")
        check(struct.unpack_from("<Q", self.data, 56)[0] == digest(self.data[:56]), f"{path}: checksum of the header")
        check((version, machine, page) == ({1: 6, 2: 4}[self.kind], 62, 4096), f"{path}: version {version}, machine {machine}, page {page}")
        foot = len(self.data) - 64
        end = struct.unpack_from("<8sQQQIIQQQ", self.data, foot)
        check(end[0] == b"CRNfoot1" and end[1] == number and end[6] == len(self.data), f"{path}: footer {end}")
        check(end[8] == digest(self.data[foot:foot + 56]), f"{path}: checksum of the footer")
        self.data_end, table, count, size = end[2], end[3], end[4], end[5]
        check(size == 32 and table + 32 * count == foot, f"{path}: table {end}")
        check(end[7] == digest(self.data[table:foot]), f"{path}: checksum of the table")
        self.sections = {}
        for place in range(table, foot, 32):
            kind, _, begin, length, checksum = struct.unpack_from("<4sIQQQ", self.data, place)
            content = self.data[begin:begin + length]
            check(begin % 8 == 0 and self.data_end <= begin and digest(content) == checksum, f"{path}: section {kind}")
            self.sections[kind] = content

    def contents(self):
        name = {1: b"META", 2: b"OBJS"}[self.kind]
        return msgpack.unpackb(self.sections[name], raw=False, unicode_errors="surrogateescape", strict_map_key=False)

    def runs(self, packed):
        """[(address, bytes)] of a list of page runs; each must have its checksum."""
        found, last = [], -1
        for address, length, offset, checksum in struct.iter_unpack("<QQQQ", packed):
            check(address % 4096 == length % 4096 == offset % 4096 == 0 and 4096 <= length <= 1 << 20
                  and 4096 <= offset and offset + length <= self.data_end and address > last, f"run at {address:#x}")
            data = self.data[offset:offset + length]
            pages = b"".join(struct.pack("<Q", digest(data[at:at + 4096]) or 1) for at in range(0, length, 4096))
            check(digest(pages) == checksum, f"checksum of the run at {address:#x}")
            found.append((address, data))
            last = address + length - 1
        return found


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json"), "rb") as file:
        text = file.read()
    at = text.index(b'"checksum": "') + len(b'"checksum": "')
    check(int(text[at:at + 16], 16) == digest(text[:at] + b"0" * 16 + text[at + 16:]), "checksum of the manifest")
    return json.loads(text)


def read(memory, address, length):
    """Pages in no run are zeros."""
    result = bytearray(length)
    for begin, data in memory:
        low, high = max(begin, address), min(begin + len(data), address + length)
        if low < high:
            result[low - address:high - address] = data[low - begin:high - begin]
    return bytes(result)


def test(t):
    path = os.path.join(t.work, "file")
    with open(path, "w") as file:
        file.write("0123456789\n")
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, path])
    pid, address = map(int, program.expect(rb"(\d+) (\d+)\r?\n").groups())
    t.wait_members(1)

    client = Client(os.path.join(t.env["CAIRN_RUNDIR"], t.name))
    status = client.ask("status")[-1]
    check(status["state"] == "running" and status["processes"] == 1 and status["last"] is None, f"status {status}")
    process, done = client.ask("list")
    check(process["event"] == "process" and process["pid"] == pid and done["np"] == 1, f"list {process} {done}")
    wrong = client.ask("no-such-verb")[-1]
    check(wrong["event"] == "failed" and wrong["code"] == 2, f"an unknown verb: {wrong}")
    events = client.ask("checkpoint")
    done = events[-1]
    check(done["event"] == "done" and done["code"] == 0, f"checkpoint {done}")
    folder = done["directory"]
    check(folder == t.latest(), f"{folder} is not {t.latest()}")

    manifest = manifest_of(folder)
    check(manifest["cid"] == done["cid"] == status["cid"] and manifest["np"] == 1 and manifest["version"] == 1, f"{manifest}")
    images = {entry["file"]: Image(os.path.join(folder, entry["file"])) for entry in manifest["images"]}
    saved = images[f"p{pid}.image"].contents()
    objects = {entry["id"]: entry for entry in images["objects.image"].contents()["objects"]}
    check(saved["pid"] == pid and saved["uid"] == process["uid"] and saved["run"] == "running", f"{pid}: {saved['uid']}")
    for field, wanted in (("sid", os.getsid(process["real"])), ("pgid", os.getpgid(process["real"]))):
        check(saved[field] == wanted, f"{field} is {saved[field]}, not {wanted}")

    area = next(a for a in saved["areas"] if a["start"] <= address < a["end"])
    check(area["kind"] == "anonymous", f"{area['kind']} at {address:#x}")
    memory = images[f"p{pid}.image"].runs(area["pages"])
    check(read(memory, address + 5 * 4096, 11) == b"find me if ", "bytes in page 5")
    check(read(memory, address + 700 * 4096 - 4, 8) == b"you can.", "bytes over the end of a page")
    check(read(memory, address + 300 * 4096, 4096) == bytes(4096), "a page that nobody touched")
    check(not any(begin <= address + 300 * 4096 < begin + len(data) for begin, data in memory), "it is in the image")

    descriptor = next(d for d in saved["descriptors"] if d["fd"] == 77)
    opened = objects[descriptor["object"]]
    check((list(opened["what"]), opened["path"], opened["identity"]["size"]) == (["file"], path, 11), f"descriptor 77: {opened}")
    check(opened["identity"]["inode"] == os.stat(path).st_ino, f"descriptor 77: {opened['identity']}")
    check(objects[saved["executable"]]["path"] == os.path.realpath("/usr/bin/python3"), "executable")
    registers = struct.unpack("<27Q", saved["threads"][0]["registers"])
    code = next(a for a in saved["areas"] if a["start"] <= registers[16] < a["end"])
    check(code["prot"] & mmap.PROT_EXEC and registers[17] == 0x33, f"rip {registers[16]:#x}, cs {registers[17]:#x}")
    check(saved["actions"][signal.SIGUSR2 - 1]["handler"] == 1, "SIGUSR2 is ignored")
    check(saved["threads"][0]["blocked"] == 1 << signal.SIGUSR1 - 1, f"mask {saved['threads'][0]['blocked']:#x}")
    pending = [struct.unpack_from("<iii", info)[0] for info in saved["pending"]]
    check(pending == [signal.SIGUSR1], f"pending {pending}")
    left = saved["itimers"][0]["left_us"]
    check(4900e6 < left <= 5000e6 and saved["itimers"][0]["interval_us"] == 60e6, f"timer {saved['itimers'][0]}")

    code, out, err = t.command("inspect", "--json", folder)
    check(code == 0, err)
    shown = json.loads(out)
    text = json.dumps(shown)
    for wanted in (saved["uid"], path, f"[{area['start']}"[1:]):
        check(wanted in text, f"inspect says nothing of {wanted}")
    t.say(f"{sum(len(image.data) for image in images.values())} bytes read, every checksum right")
    client.ask("kill")
