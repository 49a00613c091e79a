"""A headless chromium that is spoken to by the protocol of its developers' tools: https://chromedevtools.github.io/devtools-protocol/"""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import urllib.request

NAMES = ("chromium", "chromium-headless-shell", "google-chrome")


def installed():
    return next((each for each in map(shutil.which, NAMES) if each), None)


class Browser:
    def __init__(self, size=(1400, 900)):
        self.folder = tempfile.mkdtemp(prefix="cairn-test-browser-")
        self.process = subprocess.Popen([installed(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                                         f"--window-size={size[0]},{size[1]}", f"--user-data-dir={self.folder}", "--remote-debugging-port=0", "about:blank"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ, HOME=self.folder))
        for line in self.process.stderr:
            found = re.search(r"DevTools listening on ws://127.0.0.1:(\d+)/", line)
            if found:
                break
        port = int(found[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=20) as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {page['webSocketDebuggerUrl'].split(str(port), 1)[1]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self.number = 0
        self.problems = []  # what the page's scripts did wrong
        self.do("Runtime.enable")
        self.do("Log.enable")
        self.do("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self):
        text = b""
        while True:
            head = self.file.read(2)
            size = head[1] & 0x7F
            if size == 126:
                size = struct.unpack("!H", self.file.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.file.read(8))[0]
            text += self.file.read(size)
            if head[0] & 0x80:
                return json.loads(text)

    def do(self, method, **given):
        self.number += 1
        text = json.dumps({"id": self.number, "method": method, "params": given}).encode()
        mask = os.urandom(4)
        length = struct.pack("!BB", 0x81, 0x80 | len(text)) if len(text) < 126 else struct.pack("!BBH", 0x81, 0xFE, len(text))
        self.socket.sendall(length + mask + bytes(each ^ mask[i % 4] for i, each in enumerate(text)))
        while True:
            told = self.message()
            if told.get("method") == "Runtime.exceptionThrown":
                self.problems.append(told["params"]["exceptionDetails"])
            if told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.problems.append(told["params"]["entry"])
            if told.get("id") == self.number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]

    def value(self, expression):
        """What an expression is in the page; a promise's outcome."""
        told = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key, **more):
        self.do("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": key} if len(key) == 1 else {}), **more)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"]))
