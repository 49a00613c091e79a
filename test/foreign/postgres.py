"""PostgreSQL under pgbench, both inside: no transaction fails, the sums agree, pg_amcheck and the checksums find nothing."""
# ci: none (its packages are heavy: where they are installed)
import glob
import os
import re
from cairn_test import Skip, check

SCRIPT = r"""
postgres -D $PWD/data -k $PWD -p $PORT -c listen_addresses=127.0.0.1 -c shared_buffers=16MB -c max_wal_size=64MB \
    -c autovacuum_naptime=1s -c checkpoint_timeout=30s -c fsync=off $OPTIONS > server.log 2>&1 &
server=$!
until pg_isready -q -h $PWD -p $PORT; do sleep 0.1; done
export PGHOST=$PWD PGPORT=$PORT PGDATABASE=postgres
pgbench -i -s 2 -q > init.log 2>&1 || echo "FAILED pgbench -i"
echo READY
pgbench -n -h 127.0.0.1 -c 3 -j 2 -T $SECONDS_OF_LOAD > tcp.log 2>&1 & tcp=$!
pgbench -n -c 3 -j 2 -T $SECONDS_OF_LOAD > unix.log 2>&1; echo "UNIX $?"
wait $tcp; echo "TCP $?"
psql -At -c "SELECT 'SUMS', (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
    (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)"
pg_amcheck --install-missing --heapallindexed -a > amcheck.log 2>&1; echo "AMCHECK $?"
kill -INT $server
wait $server; echo "SERVER $?"
pg_checksums --check -D data > checksums.log 2>&1; echo "CHECKSUMS $?"
"""


def test(t):
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_amcheck"))
    if not folders:
        raise Skip("postgresql isn't installed")
    path = f"{os.path.dirname(folders[-1])}:{t.env['PATH']}"
    if t.mode == "userns":
        raise Skip("PostgreSQL doesn't run as root, and this namespace has nobody else")
    t.env.update(PATH=path, LC_ALL="C.UTF-8")
    # It doesn't run as root either: root starts it by su, as an init script does.
    become, shell = [], ["bash", "-c"]
    if os.getuid() == 0:
        user = t.own_by_user()
        become, shell = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"], ["su", "-s", "/bin/bash", user, "-c"]
    code, out, err = t.run([*become, "initdb", "-D", "data", "--data-checksums", "--auth=trust", "--username=postgres", "--no-sync"])
    check(code == 0, f"initdb: {out}{err}")
    program = t.launch([*shell, SCRIPT], env={
        "PORT": str(t.random.randrange(20000, 30000)), "SECONDS_OF_LOAD": "60" if t.soak else "8", "PGUSER": "postgres",
        "OPTIONS": "-c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0"})
    program.expect("READY", timeout=60)
    seen = b""
    for number in range(t.rounds):
        t.sleep(0.5 + 0.5 * t.random.random())
        # It writes to its files where it left off: what is done after the checkpoint stays done.
        program, shown = t.cycle(program, number, at_once=True)
        seen += shown
    for what in (r"UNIX 0", r"TCP 0"):
        program.expect(what + r"\r?\n", timeout=180)
    sums = program.expect(r"SUMS\|(-?\d+)\|(-?\d+)\|(-?\d+)\|(-?\d+)\|(\d+)\r?\n", timeout=60)
    for what in (r"AMCHECK 0", r"SERVER 0", r"CHECKSUMS 0"):
        program.expect(what + r"\r?\n", timeout=60)
    program.expect_exit(0)
    check(b"FAILED" not in seen, "pgbench -i failed")
    check(len(set(sums.groups()[:4])) == 1, f"the sums differ: {sums.groups()}")
    done = 0
    for name in ("tcp.log", "unix.log"):
        with open(os.path.join(t.work, name)) as file:
            text = file.read()
        done += int(re.search(r"transactions actually processed: (\d+)", text)[1])
        check("number of failed transactions: 0 " in text, f"transactions failed:\n{text}")
    check(done == int(sums[5]) and done > 100, f"{done} transactions were done, the history has {int(sums[5])}")
