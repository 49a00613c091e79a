"""nginx with two workers under wrk, all inside: no connection breaks, no answer is wrong."""
# ci: user
import os
import re
import shutil
from cairn_test import Skip, check

CONFIGURATION = """
{user} daemon off; worker_processes 2; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
    uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5; keepalive_requests 1000000;
    server {{ listen 127.0.0.1:{port}; root {work}/served; }}
}}
"""
SCRIPT = r"""
/usr/sbin/nginx -p $PWD -c $PWD/nginx.conf > nginx.log 2>&1 & server=$!
until wrk -d 1s -c 1 -t 1 http://127.0.0.1:$PORT/page > /dev/null 2>&1; do sleep 0.05; done
echo READY
# Until told to end: under this load others may wait seconds for a processor, and are to find it at work nevertheless.
wrk -t 2 -c 16 -d 3600s http://127.0.0.1:$PORT/page & wrk=$!
until [ -e stop ]; do sleep 0.05; done
kill -INT $wrk; wait $wrk; echo "WRK $?"
kill -QUIT $(cat nginx.pid)
wait $server; echo "NGINX $?"
"""


def test(t):
    if not os.path.exists("/usr/sbin/nginx") or not shutil.which("wrk"):
        raise Skip("nginx or wrk isn't installed")
    if t.mode == "userns":
        raise Skip("nginx of uid 0 calls setgroups(2), which is forbidden in a user namespace of an ordinary user's")
    port = t.random.randrange(20000, 30000)
    os.mkdir(os.path.join(t.work, "served"))
    with open(os.path.join(t.work, "served", "page"), "w") as file:
        file.write("one line of text\n" * 2000)
    with open(os.path.join(t.work, "nginx.conf"), "w") as file:
        file.write(CONFIGURATION.format(work=t.work, port=port, user="user root;" if t.mode in ("exact", "virtual") else ""))
    program = t.launch(["bash", "-c", SCRIPT], env={"PORT": str(port)})
    program.expect("READY")
    for number in range(5 * t.rounds if t.soak else t.rounds):
        t.sleep(0.3 + 0.5 * t.random.random())
        # At its end nginx removes its pid file, which the last command needs: what is done after the checkpoint stays done.
        program, _ = t.cycle(program, number, at_once=True)
    t.sleep(10 if t.soak else 0.5)
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    program.expect(r"WRK 0\r?\n", timeout=120)
    text = program.terminal.text.decode(errors="replace")
    program.expect(r"NGINX 0\r?\n")
    program.expect_exit(0)
    check("Non-2xx" not in text, f"wrong answers:\n{text}")
    # The time of the kill and the restart passes for wrk as well: timeouts are right.
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+)", text)
    check(not errors or all(int(each) == 0 for each in errors.groups()), f"connections broke:\n{text}")
    requests = re.search(r"(\d+) requests in", text)
    check(requests and int(requests[1]) > 100, f"few requests:\n{text}")
