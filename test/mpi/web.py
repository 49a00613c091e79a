"""`cairn mpi debug --web`: the page and who isn't given it, what is pushed to two pages and the console, movements, looks at events, one movement at
a time, what is given up. --soak: in a headless chromium, an event is clicked and the cut moves there; how long frames take with 64 ranks."""
import json
import os
import socket
import subprocess
import sys
import threading
import time

from cairn_test import browser
from cairn_test.mpi_job import expect
from cairn_test.web_client import Events, Web

PLACES = "planted.c"


def raw(web, text, host="127.0.0.1"):
    """What is answered to these bytes, up to the end of the connection."""
    answer = b""
    with socket.create_connection((host, web.port), timeout=10) as one:
        try:
            one.sendall(text)
            one.shutdown(socket.SHUT_WR)
            while part := one.recv(65536):
                answer += part
        except OSError as gone:
            expect(not isinstance(gone, TimeoutError), f"{text[:40]}: nothing comes")
    return answer


def strangers(web):
    """Who has another address, another name for this host, or another site's page."""
    home = f"/{web.token}/"
    status, headers, page = web.request("GET", home)
    expect(status == 200 and headers["Content-Type"].startswith("text/html"), headers)
    expect("default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer" and
           headers["Access-Control-Allow-Origin"] is None, headers)
    nonce = headers["Content-Security-Policy"].split("script-src 'nonce-")[1].split("'")[0]
    expect(page.count(f"<script nonce=\"{nonce}\">") == 2 and "<script>" not in page and "EventSource" in page and web.token not in page, "the page's scripts")
    expect(web.request("GET", home, headers={"Host": f"localhost:{web.port}"})[0] == 200, "localhost")
    other = web.token[:-1] + ("0" if web.token[-1] != "0" else "1")
    for path in ("/", "//", "/events", f"/{other}/", f"/{web.token[:-1]}/", f"/{web.token}", f"/{other}/events", f"/x/{web.token}/"):
        status, _, body = web.request("GET", path)
        expect(status == 403 and "isn't the address" in body and web.token not in body, f"{path}: {status} {body}")
    for host in ("evil.example", f"evil.example:{web.port}", "127.0.0.1", f"127.0.0.1:{web.port + 1}", f"127.0.0.1.evil.example:{web.port}", ""):
        for path in (home, home + "events"):
            status, _, body = web.request("GET", path, headers={"Host": host})
            expect(status == 403 and "ssh -L" in body and "html" not in body, f"Host {host}: {status} {body}")
    for text in (f"GET {home} HTTP/1.0\r\n\r\n", f"GET {home} HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nHost: evil.example\r\n\r\n"):
        expect(b" 403 " in raw(web, text.encode()), text)
    line = json.dumps({"line": "to 0:end"})
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{web.port}", f"http://127.0.0.1:{web.port}.evil.example"):
        status, _, body = web.request("POST", home + "command", line, {"Origin": origin})
        expect(status == 403 and "another site" in body, f"Origin {origin}: {status} {body}")
    expect(web.request("GET", home + "command")[0] == 405 and web.request("POST", home + "events", "{}")[0] == 405, "methods")
    expect(web.request("OPTIONS", home + "command", headers={"Origin": "http://evil.example"})[0] == 403, "a question of CORS")
    for what, body in (("command", "to 0:end"), ("command", "[]"), ("command", "{}"), ("command", '{"line": 1}'), ("look", '{"event": -1}'), ("look", '{"event": "x"}')):
        status, _, told = web.request("POST", home + what, body)
        expect(status == 400 and not json.loads(told)["ok"], f"{what} {body}: {status} {told}")
    expect(web.request("POST", home + "fly", "{}")[0] == 404, "fly")
    # What is no HTTP, or too much of it, ends the connection and nothing else.
    for text in (b"\0" * 100, b"x" * 100000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10000, b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
                 b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", b"", b"GET "):
        answer = raw(web, text)
        expect(not answer or b" 400 " in answer.split(b"\r\n")[0], f"{text[:40]}: {answer}")
    try:
        raw(web, b"", "127.0.0.2")
    except ConnectionRefusedError:
        pass
    else:
        expect(False, "it listens on more than 127.0.0.1")


def look(web, event):
    """On a machine that is busy a rank may take too long to start: the next look has more luck."""
    for _ in range(10):
        status, told = web.ask("look", event=event)
        expect(status == 200, told)
        if told["ok"] or "given up" not in told["error"]:
            break
    return told


def upstream(job):
    program = [job.program("planted"), "upstream"]
    job.record(4, "upstream", program, options=["--contents"])
    with Web(job, ["--every", "1", "upstream", *program]) as web:
        strangers(web)
        pages = [Events(web), Events(web)]
        for page in pages:
            state = page.wait("state")
            expect(state["cut"] == [0] * 4 and state["focus"] == 0 and state["checkpoints"][0] == [0], state)
        # A page moves: it is answered, and all others are told.
        told = web.command("to 0:end")
        end = told["cut"]
        expect(told["ok"] and told["event"] == 3 and end[0] == 3 and PLACES in told["text"], told)
        for page in pages:
            said = page.wait("said")
            expect(said["line"] == "to 0:end" and said["ok"] and not said["terminal"] and said["text"] == told["text"], said)
            state = page.wait("state")
            expect(state["cut"] == end and state["checkpoints"][0] != [0] and state["place"] == told["place"], state)
        shown = web.answer()
        expect(shown["page"] == "to 0:end" and shown["cut"] == end, shown)
        # The console moves.
        web.console("back")
        told = web.answer()
        expect("page" not in told and told["focus"] == 3, told)
        for page in pages:
            expect(page.wait("running")["line"] == "", "to 0:end")
            expect(page.wait("running")["line"] == "back" and page.wait("said")["terminal"], "back")
            state = page.wait("state")
            expect(state["focus"] == 3 and state["cut"] == told["cut"], state)
        # What doesn't work is said to whoever asked and shown to all.
        for line, error in (("fly", "there is no command 'fly'"), ("to 9:1", "ranks are 0 to 3"), ("gdb", "needs the terminal")):
            told = web.command(line)
            expect(not told["ok"] and error in told["error"], told)
            expect(error in web.answer()["error"] and error in pages[0].wait("said", lambda each: not each["ok"])["text"], line)
        # What an event brought, and where the program was: nobody moves.
        before = pages[0].wait("state", timeout=10)["cut"]
        seen = [look(web, event) for event in range(5)]
        expect(all(each["ok"] for each in seen), seen)
        expect(seen[1]["payload"] == ["1 MPI_INT: 103"] and "(receive)" in seen[1]["stack"][0] and "(upstream)" in seen[1]["stack"][1], seen)
        expect(seen[0]["payload"] == ["1 MPI_INT: 1"] and "(send)" in seen[0]["stack"][0], seen)  # where it came to
        expect("no event 999" in look(web, 999)["error"], "event 999")
        expect(web.command("cut")["cut"] == before, "a look moves nobody")
        expect(web.command("verify")["text"].endswith("all the same\n"), "verify")
        # A page that comes later sees where all stand, and what was said.
        late = Events(web)
        expect(late.wait("said")["line"] == "to 0:end" and late.wait("state")["cut"] == before, late.seen)
        late.close()
        web.process.stdin.close()
        for page in pages:
            page.wait("over")
        expect(web.process.wait(30) == 0, "the console's end")
    with Web(job, ["upstream", *program]) as web:
        taken = subprocess.run([job.cairn, "mpi", "debug", "--web", "--port", str(web.port), "upstream", *program], cwd=job.folder, env=job.env,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        expect(taken.returncode == 2 and f"port {web.port}" in taken.stderr and "in use" in taken.stderr, taken)
        expect(web.command("quit")["ok"] and web.process.wait(30) == 0, "quit")


def one_at_a_time(job):
    program = [job.program("paced"), "400"]  # rounds of 2 ms
    job.record(2, "paced", program, options=["--contents"])
    with Web(job, ["paced", *program]) as web:
        page = Events(web)
        page.wait("state")
        expect("nothing runs" in web.ask("interrupt")[1]["error"], "interrupt")
        answers = []
        mover = threading.Thread(target=lambda: answers.append(web.command("to 0:end")))
        mover.start()
        page.wait("running", lambda each: each["line"] == "to 0:end")
        status, told = web.ask("command", line="step")
        expect(status == 409 and told["busy"] and "'to 0:end', asked for by a page, isn't over" in told["error"], told)
        expect(web.ask("look", event=1)[0] == 409, "look")
        expect(web.ask("interrupt")[1]["ok"], "interrupt")
        mover.join()
        expect(not answers[0]["ok"] and "interrupted" in answers[0]["error"], answers)
        expect(page.wait("state")["cut"] == [0, 0], page.seen)
        # The same, by the terminal.
        web.console("to 0:end")
        page.wait("running", lambda each: each["line"] == "to 0:end")
        status, told = web.ask("command", line="step")
        expect(status == 409 and "asked for at the terminal" in told["error"], told)
        web.ask("interrupt")
        page.wait("said", lambda each: each["terminal"] and "interrupted" in each["text"])
        # A look gives way.
        looks = []
        looker = threading.Thread(target=lambda: looks.append(web.ask("look", event=400)))
        looker.start()
        time.sleep(0.1)
        begun = time.monotonic()
        told = web.command("step")
        took = time.monotonic() - begun
        looker.join()
        expect(told["ok"] and told["event"] == 1, told)
        print(f"a step behind a look: {took:.2f} s, the look: {looks[0][1].get('error', 'was through')}")
        told = web.command("to 0:end")
        expect(told["ok"] and told["event"] == 401, told)
        native, _ = job.run([job.cairn, "mpi", "replay", "--rank", "0", "paced", *program])
        late = time.monotonic() + 10
        while [each["line"] for name, each in page.seen if name == "printed" and each["rank"] == 0] != native.splitlines():
            expect(time.monotonic() < late, f"what the program prints, once: {page.seen} {native}")
            time.sleep(0.05)


def recovery_line(job):
    program = [job.program("heat"), "4", "16", "6"]
    job.record(3, "line", program, options=["--checkpoints", "fdas", "--checkpoint-every", "5"])
    with Web(job, ["line", *program]) as web:
        page = Events(web)
        first = page.wait("line")["cut"]
        told = web.command("line")
        expect(told["ok"] and told["cut"] == first and any(first), (told, first))
        told = web.command("line 1")
        page.wait("line", lambda each: each["cut"] == told["cut"])


def wrong(job):
    for options, error in ((["--web", "--dap"], "--dap or --web?"), (["--port", "1234", "x", "y"], "--port: of which page?"), (["--web", "--port", "70000", "x", "y"], "port")):
        done = subprocess.run([job.cairn, "mpi", "debug", *options], cwd=job.folder, env=job.env, capture_output=True, text=True, check=False)
        expect(done.returncode == 2 and error in done.stderr, (options, done))


def frames(page, setup, change):
    """Milliseconds of drawing, and from frame to frame: their medians."""
    page.value(f"({setup}, dirty = true, 0)")
    time.sleep(0.5)
    return page.value(f"""new Promise(done => {{
        const gaps = [], draws = []; let last = 0, n = 0;
        const step = now => {{
          if (last) {{ gaps.push(now - last); draws.push(lastFrame); }}
          last = now; {change}; dirty = true;
          if (++n < 120) requestAnimationFrame(step);
          else done([draws, gaps].map(each => each.sort((a, b) => a - b)[each.length >> 1]));
        }};
        requestAnimationFrame(step); }})""")


def until(page, expression, what):
    late = time.monotonic() + 30
    while not page.value(expression):
        expect(time.monotonic() < late, f"{what}: {page.problems}")
        time.sleep(0.05)


def in_a_browser(job):
    program = [job.program("heat"), "4", "16", "22"]
    job.record(64, "many", program, options=["--contents"])
    with Web(job, ["many", *program]) as web, browser.Browser() as page:
        page.do("Page.navigate", url=web.url + "#light")
        until(page, "typeof standing !== 'undefined' && standing !== null", "the first state")
        expect(page.value("E") > 10000 and page.value("N") == 64, "the record's size")
        # An event is clicked: the panel tells of it, with its stack; and the way in it leads there.
        event = "first[5] + 30"
        page.value(f"(scaleX = 12, scaleY = 30, left = x[{event}] - 20, top_ = -0.5, dirty = true, 0)")
        time.sleep(0.3)
        at = page.value(f"[toX(x[{event}]), toY(5) + TOP]")
        page.click(*at)
        until(page, f"chosen === {event} && byId('about').textContent.includes('heat.c')", "the panel")
        before = page.value("standing.cut")
        at = page.value("(r => [r.x + r.width / 2, r.y + r.height / 2])(byId('way').getBoundingClientRect())")
        page.click(*at)
        until(page, f"standing.focus === 5 && standing.cut[5] > {before[5]} && standing.event === numberOf({event})", "the way")
        cut = page.value("standing.cut")
        told = web.command("cut")
        expect(told["cut"] == cut and cut != before, (before, cut, told))
        # Keys, and the command line.
        page.key("s")
        until(page, f"standing.cut[5] > {cut[5]}", "a step")
        page.key("S")
        until(page, f"standing.cut[5] === {cut[5]}", "a step back")
        page.key("b")
        until(page, "standing.focus !== 5", "back")
        page.key("j")
        until(page, "standing.focus === 5 || byId('said').textContent.includes('focus')", "the next rank")
        page.key(":")
        page.do("Input.insertText", text="to 9:4")
        page.key("Enter")
        until(page, "standing.focus === 9 && byId('prompt').textContent === '(9:4)'", "the command line")
        page.key("Escape")
        # The mouse rests at an event.
        page.value("(choose(-1), 0)")
        event = "first[3] + 12"
        at = page.value(f"(bringIntoSight({event}), [toX(x[{event}]), toY(3) + TOP])")
        page.mouse("mouseMoved", at[0] - 40, at[1] + 15)
        page.mouse("mouseMoved", *at)
        until(page, "byId('tip').style.display === 'block' && byId('tip').textContent.includes('(exchange)\\n')", "the tip's stack")
        # Frames. Twice a sixtieth of a second is allowed on a machine that does other things; more where more wants to run than there are processors.
        slow = max(1, os.getloadavg()[0] / os.cpu_count())
        for what, setup, change in (("all", "fit()", "left += (n % 2 ? 1 : -1) * 20 / scaleX"),
                                    ("near", "fit(), scaleX = 12, scaleY = 30", "left += (n % 2 ? 1 : -1) * 20 / scaleX"),
                                    ("zoom", "fit()", "zoom(width / 2, height / 2, n % 60 < 30 ? 1.1 : 1 / 1.1, 1)"),
                                    ("the cut", "fit()", "standing = { ...standing, cut: standing.cut.map((c, p) => Math.floor(n / 120 * (first[p + 1] - first[p]))) }")):
            drawn, gap = frames(page, setup, change)
            print(f"{what}: drawn in {drawn:.1f} ms, {gap:.1f} ms from frame to frame")
            expect(drawn < 33 * slow and gap < 40 * slow, f"{what} stutters: {drawn} ms, {gap} ms, {slow}")
        for theme in ("light", "dark"):
            page.value(f"(setTheme({json.dumps(theme == 'dark')}), 0)")
            time.sleep(0.2)
            page.picture(f"{job.folder}/{theme}.png")
        # A look that gives way is refused as a conflict, which the browser writes down.
        problems = [each for each in page.problems if "409" not in each.get("text", "")]
        expect(not problems, problems)
        web.command("quit")
        until(page, "byId('doing').textContent === 'the debugger has ended'", "the end")


def test(job, given):
    if given.soak:
        if not browser.installed():
            print("no chromium; apt-get install chromium")
            sys.exit(77)
        in_a_browser(job)
    wrong(job)
    upstream(job)
    one_at_a_time(job)
    recovery_line(job)
