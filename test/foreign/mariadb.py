"""MariaDB with io_uring, which Debian's uses by default, at rest and under three clients, all inside: each row is there once."""
# ci: none (its packages are heavy: where they are installed)
import os
import shutil
from cairn_test import Skip, check

SCRIPT = r"""
mariadbd --no-defaults --user=$(id -un) --datadir=$PWD/data --socket=$PWD/s --skip-networking --pid-file=$PWD/pid $OPTIONS \
    > server.log 2>&1 &
server=$!
ask() { mariadb --no-defaults -u root -S $PWD/s "$@"; }
until ask -e 'select 1' > /dev/null 2>&1; do sleep 0.1; done
ask -e 'create database d; create table d.t (client int, number int, filler varchar(1200), primary key (client, number)) engine=innodb'
echo "READY $(ls -l /proc/$server/fd | grep -c io_uring) $(grep -c '\[aio\]' /proc/$server/maps)"
until [ -e begin ]; do sleep 0.1; done
client() {
    number=0
    until [ -e stop ]; do
        number=$((number + 1))
        echo "insert into t values ($1, $number, repeat('x', 1000)); update t set filler = repeat('y', 1100) where client = $1 and number = $number - 500;"
    done | ask d || echo "FAILED client $1"
}
client 1 & one=$!; client 2 & two=$!; client 3 & three=$!
echo BEGUN
wait $one $two $three
ask -N -e 'select "ROWS", count(*), sum(t.number), (select sum(c * (c + 1) / 2) from (select count(*) c from d.t group by client) x) from d.t t' | tr '\t' ' '
ask -N -e 'check table d.t extended' | tr '\t' ' '
mariadb-admin --no-defaults -u root -S $PWD/s shutdown
wait $server; echo "SERVER $?"
innochecksum data/d/t.ibd && echo "CHECKSUMS 0"
"""


def test(t):
    t.env["PATH"] += ":/usr/sbin"
    if not shutil.which("mariadbd", path=t.env["PATH"]):
        raise Skip("mariadb-server isn't installed")
    native = t.arguments.names[:1] != ["aio"]
    code, out, err = t.run(["sh", "-c", "mariadb-install-db --no-defaults --datadir=$PWD/data --user=$(id -un) "
                                        "--auth-root-authentication-method=normal --skip-test-db"])
    check(code == 0, f"mariadb-install-db: {out}{err}")
    program = t.launch(["bash", "-c", SCRIPT], options=() if native else ("--io-uring=enosys",), env={
        "OPTIONS": "--innodb-buffer-pool-size=8M --innodb-log-file-size=8M"})
    found = program.expect(r"READY (\d+) (\d+)\r?\n", timeout=120)
    check(found[1] == (b"1" if native else b"0") or found[1] == ("1" if native else "0"), f"it has {found[1]} rings of io_uring")
    program, seen = t.cycle(program, 0, at_once=True)
    t.sleep(2)
    with open(os.path.join(t.work, "begin"), "w"):
        pass
    program.expect("BEGUN", timeout=60)
    for number in range(1, t.rounds + 1):
        t.sleep(0.5 + t.random.random())
        program, shown = t.cycle(program, number, at_once=True)
        seen += shown
    t.sleep(20 if t.soak else 1)
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    rows = program.expect(r"ROWS (\d+) (\d+) (\d+)(?:\.\d+)?\r?\n", timeout=180)
    program.expect(r"d\.t check status OK\r?\n", timeout=60)
    for what in (r"SERVER 0", r"CHECKSUMS 0"):
        program.expect(what + r"\r?\n", timeout=120)
    program.expect_exit(0)
    check(b"FAILED" not in seen and b"FAILED" not in program.terminal.text, "a client failed")
    check(int(rows[1]) > 100 and rows[2] == rows[3], f"{rows[1]} rows: their numbers add up to {rows[2]}, not {rows[3]}")
