"""redis-server under redis-benchmark, both inside: each of so many increments is done once, and none is lost."""
# ci: user
import os
import shutil
from cairn_test import Skip, check

SCRIPT = r"""
redis-server --port $PORT --bind 127.0.0.1 ::1 --save '' --appendonly no --daemonize no > server.log 2>&1 &
server=$!
until redis-cli -p $PORT ping > /dev/null 2>&1; do sleep 0.05; done
echo READY
count=0
until [ -e stop ]; do
    redis-benchmark -p $PORT -t incr -n 5000 -c 20 -q > benchmark.log 2>&1 || echo "FAILED benchmark"
    count=$((count + 5000))
done
echo "COUNTED $count $(redis-cli -p $PORT get counter:__rand_int__)"
redis-cli -p $PORT shutdown nosave
wait $server; echo "SERVER $?"
"""


def test(t):
    if not shutil.which("redis-benchmark") or not shutil.which("redis-server"):
        raise Skip("redis isn't installed")
    program = t.launch(["bash", "-c", SCRIPT], env={"PORT": str(t.random.randrange(20000, 30000))})
    program.expect("READY")
    for number in range(t.rounds):
        t.sleep(0.3 + 0.5 * t.random.random())
        program, _ = t.cycle(program, number)
    t.sleep(10 if t.soak else 0.2)
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    found = program.expect(r"COUNTED (\d+) (\d*)\r?\n", timeout=60)
    check(int(found[1]) > 0, "no benchmark came to its end")
    check(found[1] == found[2], f"{found[1]} increments were acknowledged, the counter says {found[2]}")
    check(b"FAILED" not in program.terminal.text, "a benchmark failed")
    program.expect(r"SERVER 0\r?\n")
    program.expect_exit(0)
