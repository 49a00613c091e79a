"""Databases that have been written to since the checkpoint go back with their programs (--files=save): sqlite with a write-ahead log
and with a rollback journal, redis with its append-only file, PostgreSQL under pgbench. Each is killed and restarted from the same
older checkpoint again and again; no row is there twice, and none is missing."""
# ci: user (sqlite and redis; the soak has PostgreSQL as well, and 20 restarts of each: two a minute behind the checkpoint, the others ten seconds)
import glob
import os
import shutil
import sqlite3
from cairn_test import Skip, check

WRITER = r"""
import os, sqlite3, sys, time
name, journal = sys.argv[1:]
data = sqlite3.connect(f"data/{journal}.db", timeout=60, isolation_level=None)
number = 0
print("BEGUN", flush=True)
while not os.path.exists("stop"):
    data.execute("BEGIN IMMEDIATE")
    data.execute("INSERT INTO line VALUES(?, ?, ?)", (name, number, os.urandom(100 + 13 * (number % 40)).hex()))
    data.execute("UPDATE total SET n = n + 1")
    data.execute("COMMIT")
    number += 1
    if number % 50 == 0:
        data.execute("DELETE FROM line WHERE name = ? AND number < ?", (name + " old", number))
    time.sleep(0.002)
# In one write: the others write there, too.
os.write(1, f"WROTE {name} {number} {data.execute('PRAGMA integrity_check').fetchone()[0]}\n".encode())
"""
SQLITE = r"""
for name in a b; do for journal in wal delete; do /usr/bin/python3 -c "$WRITER" $name $journal & done; done
echo READY
wait
echo DONE
"""
REDIS = r"""
redis-server --port $PORT --bind 127.0.0.1 --save '' --appendonly yes --appendfsync everysec --dir data --daemonize no > server.log 2>&1 &
until redis-cli -p $PORT ping > /dev/null 2>&1; do sleep 0.05; done
echo READY
count=0
until [ -e stop ]; do redis-cli -p $PORT eval "for i=1,20 do redis.call('rpush','list',redis.call('incr','n')) end" 0 > /dev/null || echo FAILED
count=$((count + 20)); [ $count != 100 ] || redis-cli -p $PORT bgrewriteaof > /dev/null; done
echo "COUNTED $count $(redis-cli -p $PORT get n) $(redis-cli -p $PORT llen list) $(redis-cli -p $PORT lindex list -1)"
redis-cli -p $PORT shutdown nosave
wait
echo DONE
"""
POSTGRES = r"""
postgres -D $PWD/data -k $PWD -p $PORT -c listen_addresses= -c shared_buffers=16MB -c max_wal_size=64MB -c autovacuum_naptime=1s \
    -c checkpoint_timeout=30s > server.log 2>&1 &
server=$!
until pg_isready -q -h $PWD -p $PORT; do sleep 0.1; done
export PGHOST=$PWD PGPORT=$PORT PGDATABASE=postgres
pgbench -i -s 2 -q > init.log 2>&1 || echo "FAILED pgbench -i"
echo READY
until [ -e stop ]; do pgbench -n -c 3 -j 2 -t 50 > bench.log 2>&1 || echo FAILED; done
psql -At -c "SELECT 'SUMS', (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
    (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)"
pg_amcheck --install-missing --heapallindexed -a > amcheck.log 2>&1; echo "AMCHECK $?"
kill -INT $server
wait $server; echo "SERVER $?"
pg_checksums --check -D data > checksums.log 2>&1; echo "CHECKSUMS $?"
echo DONE
"""


def said_by(program):
    with open(program.errors) as file:
        return file.read()


def again_and_again(t, program, name):
    """Restarts from one checkpoint that falls further behind. The last one goes on to the end."""
    t.sleep(0.3 + t.random.random())
    t.checkpoint()
    for number in range(20 if t.soak else t.rounds):
        t.sleep((60 if number in (0, 10) else 10) if t.soak else 0.5 + 2 * t.random.random())
        t.pull_the_plug(number % 2 == 1)
        program = t.restart(name=f"{name}: restart {number + 1}")
        t.wait_until(lambda: "data is put back as it was at the checkpoint" in said_by(program), "what was there to be kept")
        t.wait_until(lambda: "go on (generation" in said_by(program), "the programs to go on")
    t.sleep(0.5)
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    return program


def sqlite(t):
    for journal in ("wal", "delete"):
        data = sqlite3.connect(os.path.join(t.work, "data", f"{journal}.db"))
        data.execute(f"PRAGMA journal_mode = {journal}")
        data.execute("CREATE TABLE line(name TEXT, number INTEGER, text TEXT, PRIMARY KEY(name, number))")
        data.execute("CREATE TABLE total(n INTEGER)")
        data.execute("INSERT INTO total VALUES(0)")
        data.commit()
        data.close()
    program = t.launch(["bash", "-c", SQLITE], env={"WRITER": WRITER}, options=("--with", "data"))
    for _ in range(4):
        program.expect("BEGUN")
    program = again_and_again(t, program, "sqlite")
    wrote = 0
    for _ in range(4):
        found = program.expect(r"WROTE \w (\d+) ok\r?\n", timeout=60)
        wrote += int(found[1])
    program.expect(r"DONE\r?\n")
    program.expect_exit(0)
    lines = total = 0
    for journal in ("wal", "delete"):
        data = sqlite3.connect(os.path.join(t.work, "data", f"{journal}.db"))
        check(data.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"{journal}: integrity")
        here, count, last = data.execute("SELECT (SELECT count(*) FROM line), (SELECT n FROM total), "
                                         "(SELECT sum(m + 1) FROM (SELECT max(number) AS m FROM line GROUP BY name))").fetchone()
        check(here == count == last, f"{journal}: {here} rows, {count} counted, {last} numbered")
        lines, total = lines + here, total + count
        data.close()
    check(lines == wrote and wrote > 100, f"{wrote} rows were written, {lines} are there")


def redis(t):
    if not shutil.which("redis-server"):
        raise Skip("redis isn't installed")
    program = t.launch(["bash", "-c", REDIS], env={"PORT": str(t.random.randrange(20000, 30000))}, options=("--with", "data"))
    program.expect("READY")
    program = again_and_again(t, program, "redis")
    found = program.expect(r"COUNTED (\d+) (\d+) (\d+) (\d+)\r?\n", timeout=60)
    check(len(set(found.groups())) == 1 and int(found[1]) > 100, f"counted, n, list, last: {found.groups()}")
    program.expect(r"DONE\r?\n")
    program.expect_exit(0)
    check(b"FAILED" not in program.terminal.text, "a command failed")
    for manifest in glob.glob(os.path.join(t.work, "data", "appendonlydir", "*.manifest")):
        code, out, err = t.run(["redis-check-aof", manifest])
        check(code == 0 and "valid" in out, out + err)


def postgres(t):
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_amcheck"))
    if not folders or t.mode == "userns":
        raise Skip("postgresql isn't installed, or would have to run as root")
    t.env.update(PATH=f"{os.path.dirname(folders[-1])}:{t.env['PATH']}", LC_ALL="C.UTF-8")
    become, shell = [], ["bash", "-c"]
    if os.getuid() == 0:
        user = t.own_by_user()
        become, shell = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"], ["su", "-s", "/bin/bash", user, "-c"]
    code, out, err = t.run([*become, "initdb", "-D", "data", "--data-checksums", "--auth=trust", "--username=postgres", "--no-sync"])
    check(code == 0, f"initdb: {out}{err}")
    program = t.launch([*shell, POSTGRES], options=("--with", "data"),
                       env={"PORT": str(t.random.randrange(20000, 30000)), "PGUSER": "postgres"})
    program.expect("READY", timeout=120)
    program = again_and_again(t, program, "postgres")
    sums = program.expect(r"SUMS\|(-?\d+)\|(-?\d+)\|(-?\d+)\|(-?\d+)\|(\d+)\r?\n", timeout=120)
    check(len(set(sums.groups()[:4])) == 1, f"the sums differ: {sums.groups()}")
    check(int(sums[5]) % 150 == 0 and int(sums[5]) > 0, f"{sums[5]} transactions, which come by 150")
    for what in (r"AMCHECK 0", r"SERVER 0", r"CHECKSUMS 0", r"DONE"):
        program.expect(what + r"\r?\n", timeout=60)
    program.expect_exit(0)
    check(b"FAILED" not in program.terminal.text, "pgbench failed")


def test(t):
    for each in (sqlite, redis, postgres):
        chosen = t.arguments.names or (["sqlite", "redis", "postgres"] if t.soak else ["sqlite", "redis"])
        if each.__name__ not in chosen:
            continue
        shutil.rmtree(os.path.join(t.work, "data"), ignore_errors=True)
        os.mkdir(os.path.join(t.work, "data"), 0o700)
        try:
            each(t)
        except Skip as why:
            if chosen == [each.__name__]:
                raise
            t.skip_part(each.__name__, why)
        t.pull_the_plug()
        for path in glob.glob(os.path.join(t.work, "data.cairn-after-*")):
            shutil.rmtree(path)
        if os.path.exists(os.path.join(t.work, "stop")):
            os.unlink(os.path.join(t.work, "stop"))
        t.say(f"{each.__name__}: good")
