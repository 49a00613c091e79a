"""Browsers without a window: a page with timers, fetches and a worker is loaded from a server outside, and goes on counting after each restart. chromium is also asked over its debugging port.
browsers.py [NAME...]: all that are installed, but for chromium with its sandbox, if none is named."""
# ci: none (its packages are heavy: where they are installed)
# timeout: 1800
import base64
import http.server
import json
import os
import re
import shutil
import socket
import struct
import threading
import time
import urllib.request
from cairn_test import Failure, Skip, check, table

PAGE = b"""<!DOCTYPE html><html><head><title>start</title></head><body><canvas id="c" width="60" height="60"></canvas><script>
let counter = 0, sum = 0, worked = 0;
const worker = new Worker(URL.createObjectURL(new Blob(["onmessage = e => { let s = 0; for (let i = 0; i < 200000; i++) s = (s + i * e.data) % 1000003; postMessage(s); }"])));
worker.onmessage = () => { worked++; };
setInterval(() => {
  counter++; sum += counter; document.title = 'n' + counter; worker.postMessage(counter);
  const c = document.getElementById('c').getContext('2d'); c.fillStyle = '#' + (counter % 900 + 100); c.fillRect(counter % 60, 0, 1, 60);
  // A connection that a restart has reset is made anew by the next one.
  fetch('/tick?' + counter + ',' + sum + ',' + worked).catch(() => {});
}, 100);
</script></body></html>"""
COMMON = "--headless --disable-gpu --no-first-run --no-default-browser-check --disable-background-networking --disable-component-update --user-data-dir=$PWD/profile --remote-debugging-port={port}"
# Name: the command ({port}: of its debugger, {page}: what to load), whether it can be asked over that port, and who may run it.
BROWSERS = {
    "chromium-no-sandbox": (f"exec chromium --no-sandbox {COMMON} {{page}}", True, ("exact", "virtual", "user")),
    "chromium": (f"exec chromium {COMMON} {{page}}", True, ("user",)),
    "firefox-no-sandbox": ("export MOZ_DISABLE_CONTENT_SANDBOX=1 MOZ_DISABLE_GMP_SANDBOX=1 MOZ_DISABLE_RDD_SANDBOX=1 MOZ_DISABLE_SOCKET_PROCESS_SANDBOX=1 MOZ_DISABLE_UTILITY_SANDBOX=1 MOZ_ASSUME_USER_NS=0; "
                           "mkdir -p profile; exec firefox-esr --headless --no-remote --profile $PWD/profile {page}", False, ("exact", "virtual", "user")),
    "firefox": ("mkdir -p profile; exec firefox-esr --headless --no-remote --profile $PWD/profile {page}", False, ("virtual",)),
}


class Seen:
    """A server outside of the computation: the page, and the last tick that came."""

    def __init__(self):
        self.last = None
        seen = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path.startswith("/tick?"):
                    seen.last = tuple(int(each) for each in self.path[6:].split(","))
                body = PAGE if self.path == "/page.html" else b""
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.page = f"http://127.0.0.1:{self.server.server_address[1]}/page.html"

    def right(self):
        counter, total, _ = self.last
        return total == counter * (counter + 1) // 2


def asked(port, expression):
    """What the page of a chromium says to an expression, by the protocol of its developers' tools."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as answer:
        page = next(each for each in json.load(answer) if each["type"] == "page")
    path = page["webSocketDebuggerUrl"].split(str(port), 1)[1]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        file = one.makefile("rb")
        while file.readline() not in (b"\r\n", b""):
            pass
        text = json.dumps({"id": 1, "method": "Runtime.evaluate", "params": {"expression": expression, "returnByValue": True}}).encode()
        mask = os.urandom(4)
        length = struct.pack("!BB", 0x81, 0x80 | len(text)) if len(text) < 126 else struct.pack("!BBH", 0x81, 0xFE, len(text))
        one.sendall(length + mask + bytes(each ^ mask[i % 4] for i, each in enumerate(text)))
        head = file.read(2)
        size = head[1] & 0x7F
        size = struct.unpack("!H", file.read(2))[0] if size == 126 else struct.unpack("!Q", file.read(8))[0] if size == 127 else size
        return json.loads(file.read(size))["result"]["result"]["value"]


def one(t, name):
    command, over_port, modes = BROWSERS[name]
    tool = re.search(r"exec (\S+)", command).group(1)
    if not shutil.which(tool):
        raise Skip(f"{tool} isn't installed")
    if t.mode not in modes:
        raise Skip(f"{name} isn't for mode {t.mode}")
    seen = Seen()
    port = t.random.randrange(12000, 15000)
    os.makedirs(os.path.join(t.work, "run"), mode=0o700, exist_ok=True)
    program = t.launch(["sh", "-c", command.format(port=port, page=seen.page)], name=name, terminal="none",
                       env={"HOME": t.work, "XDG_RUNTIME_DIR": os.path.join(t.work, "run"), "DBUS_SESSION_BUS_ADDRESS": "disabled:", "MOZ_CRASHREPORTER_DISABLE": "1"})
    try:
        t.wait_until(lambda: seen.last and seen.last[0] >= 20 and seen.last[2] >= 10, "the page to count", 90)
        for number in range(t.rounds):
            program, _ = t.cycle(program, number, at_once=True, terminal="none")
            before = seen.last
            t.wait_until(lambda old=before: seen.last[0] >= old[0] + 15 and seen.last[2] >= old[2] + 5, f"the page to go on after restart {number + 1} ({before})", 60)
            check(seen.right(), f"the page's sum isn't right: {seen.last}")
            check(seen.last[0] < before[0] + 600, f"the page has begun anew or jumped: {before}, {seen.last}")
            if over_port and not t.dry:
                first = asked(port, "counter")
                time.sleep(0.5)
                check(asked(port, "counter") > first, "the page stands still, says the browser")
            t.say(f"{before} and then {seen.last}")
    except Failure:
        t.say("".join(t.text_of(each) for each in t.programs))
        raise


def test(t):
    if len(t.arguments.names) == 1:
        return one(t, t.arguments.names[0])
    # chromium with its sandbox is refused (docs/programs.md): by hand only.
    return table.each(t, __file__, t.arguments.names or [name for name in BROWSERS if name != "chromium"])
