"""sqlite3 inside a transaction."""
from cairn_test import check


def test(t):
    shell = t.launch(["sqlite3", "-batch", "data.db"])

    def ask(line, answer):
        shell.send(line + "\n")
        shell.expect(answer)

    t.sleep(0.5)
    ask("PRAGMA cache_size = 5; CREATE TABLE t(n INTEGER PRIMARY KEY, x TEXT); SELECT 'made', 1;", r"made\|1\r?\n")
    # A small cache: pages of the open transaction are spilled into the file, the journal is what protects it.
    ask("BEGIN; WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000) "
        "INSERT INTO t SELECT i, hex(i * 7919) FROM c; SELECT 'rows', count(*) FROM t;", r"rows\|20000\r?\n")
    for number in range(t.rounds):
        shell, _ = t.cycle(shell, number)
        ask(f"INSERT INTO t VALUES({30000 + number}, 'round'); SELECT 'rows', count(*) FROM t;",
            rf"rows\|{20001 + number}\r?\n")
    ask("COMMIT; PRAGMA integrity_check;", r"ok\r?\n")
    ask("BEGIN; DELETE FROM t WHERE n < 10000; SELECT 'left', count(*) FROM t;", rf"left\|{10001 + t.rounds}\r?\n")
    shell, _ = t.cycle(shell, 1)
    ask("ROLLBACK; SELECT 'rows', count(*) FROM t;", rf"rows\|{20000 + t.rounds}\r?\n")
    shell.send(".quit\n")
    shell.expect_exit(0)
    code, out, err = t.run(["sqlite3", "data.db", "PRAGMA integrity_check; SELECT count(*), sum(n) FROM t;"])
    total = 20000 * 20001 // 2 + sum(30000 + number for number in range(t.rounds))
    check(out == f"ok\n{20000 + t.rounds}|{total}\n", f"the database afterwards: {out!r} {err!r}")
