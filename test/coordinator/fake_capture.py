#!/usr/bin/python3
"""Stands in for cairn-capture: does what CAIRN_FAKE_CAPTURE says (a file with one word and an argument, read at each start)."""
import json
import os
import signal
import socket
import sys
import time

work = socket.socket(fileno=3)
request = json.loads(work.recv(1 << 23))
with open(os.environ["CAIRN_FAKE_CAPTURE"]) as orders:
    order, _, argument = orders.read().strip().partition(" ")
with open(os.environ["CAIRN_FAKE_CAPTURE"] + ".log", "a") as log:
    log.write(json.dumps(request) + "\n")


def tell(**event):
    work.send(json.dumps(event).encode())


def wait_for_end():
    while work.recv(65536):
        pass


for phase in ("stop", "collect", "objects", "fork", "resume", "write", "sync"):
    tell(event="phase", name=phase, waiting=[])
    if argument != phase:
        continue
    if order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if order == "fail":
        tell(event="failed", reason="asked to fail", phase=phase)
        sys.exit(1)
    if order == "full":
        tell(event="failed", reason="image: write: No space left on device", phase=phase)
        sys.exit(1)
    if order == "words":
        print("last words", file=sys.stderr)
        sys.exit(3)
    if order == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)
    if order == "wait":
        while os.path.exists(os.environ["CAIRN_FAKE_CAPTURE"] + ".hold"):
            work.settimeout(0.02)
            try:
                if not work.recv(65536):
                    sys.exit(1)
            except socket.timeout:
                pass

images = []
for member in request["members"]:
    name = "%d.image" % member["pid"]
    with open(os.path.join(request["directory"], name), "w") as image:
        image.write("x" * 1000)
    images.append({"file": name, "uid": "u%d" % member["pid"], "pid": member["pid"], "name": "fake", "bytes": 1000, "part": 0})
tell(event="progress", bytes=1000, total=1000, last="1 (fake)")
np = len(images)
filler = int(argument) if order == "large" else 0
tell(event="done", pause_ns=1000000, bytes=1000 * np, notes=["a note"],
     manifest={"version": 1, "cid": request["cid"], "np": np, "generation": request["generation"],
               "session": request["session"], "host": "h", "images": images, "notes": ["n" * filler],
               "parts": [{"number": 0, "host": "h", "terminal": "", "pids": [i["pid"] for i in images]}]})
