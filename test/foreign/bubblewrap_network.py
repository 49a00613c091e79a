"""redis-server and two of its clients in a sandbox of bubblewrap's without a network: a connection of TCP's over the sandbox's own loopback interface, at a port that is taken outside as well, and one by a Unix socket."""
# ci: exact user
import os
import socket

from cairn_test import check

NEEDS = ["/usr/bin/bwrap", "/usr/bin/redis-server"]

SCRIPT = """redis-server --port 6379 --unixsocket redis.socket --save '' --daemonize no > redis.log &
until redis-cli ping > /dev/null 2>&1; do sleep 0.05; done
count() {
    i=0
    while [ $i -lt 60 ] || ! [ -e end ]; do  # until there were all checkpoints
        i=$((i + 1))
        echo $i > "$1.sent"
        echo incr "$1"
        sleep 0.03
    done | redis-cli "${@:2}"
}
count by-path -s redis.socket > by-path &
count by-port | sed -u 's/^/counted /'
wait %2
tail -n 1 by-path
redis-cli shutdown nosave
echo the end
exit 5
"""


def test(t):
    project = os.path.join(t.work, "project")
    os.makedirs(project)
    with open(os.path.join(project, "script.sh"), "w") as file:
        file.write(SCRIPT)
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 6379))
        taken.listen()
    except OSError:
        pass  # somebody has it, which will do
    program = t.launch(["bwrap", "--unshare-user", "--unshare-net", "--dev-bind", "/", "/", "--bind", project, project, "--chdir", project, "bash", "script.sh"])
    for number in range(t.rounds):
        program.expect(rf"counted \d+\r?\n")
        program, _ = t.cycle(program, number, at_once=True, ids="virtual")
    with open(os.path.join(project, "end"), "w"):
        pass
    counted = program.expect(r"counted (\d+)\r?\n(\d+)\r?\nthe end", 60).groups()
    program.expect_exit(5)
    sent = [open(os.path.join(project, name + ".sent")).read().strip() for name in ("by-port", "by-path")]
    counted = [each.decode() for each in counted]
    check(counted == sent and min(map(int, sent)) >= 60, f"sent {sent}, counted {counted}")
    code, _, err = t.run([os.path.join(t.ckptdir, "restart.sh"), "--ids=exact"])
    check(code == 3 and "(redis-server) has threads, and namespaces of its own" in err, f"--ids=exact: {code} {err}")
