"""sqlite under four writers and a reader, with a rollback journal and with a write-ahead log: each row once, nothing torn."""
# ci: exact
import os
import sqlite3
from cairn_test import check

WRITER = r"""
import os, sqlite3, sys, time
name, count, journal = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data = sqlite3.connect(f"{journal}.db", timeout=60, isolation_level=None)
data.execute("PRAGMA synchronous = OFF")
for number in range(count):
    data.execute("BEGIN IMMEDIATE")
    data.execute("INSERT INTO line VALUES(?, ?, ?)", (name, number, os.urandom(100 + 13 * (number % 40)).hex()))
    data.execute("UPDATE total SET n = n + 1")
    data.execute("COMMIT")
    time.sleep(0.003)
"""
READER = r"""
import os, sqlite3, sys, time
data = sqlite3.connect(f"{sys.argv[1]}.db", timeout=60, isolation_level=None)
while not os.path.exists("stop"):
    lines, total = data.execute("SELECT (SELECT count(*) FROM line), (SELECT n FROM total)").fetchone()
    if lines != total:
        print(f"WRONG {lines} {total}", flush=True)
    time.sleep(0.002)
"""
SCRIPT = r"""
for journal in delete wal; do
    /usr/bin/python3 reader.py $journal & readers="$readers $!"
    for name in a b; do /usr/bin/python3 writer.py $name $COUNT $journal & writers="$writers $!"; done
    for name in c d; do /usr/bin/python3 writer.py $name $COUNT $journal & writers="$writers $!"; done
done
echo READY
for each in $writers; do wait $each || echo "WRONG writer $?"; done
touch stop
for each in $readers; do wait $each || echo "WRONG reader $?"; done
echo DONE
"""


def test(t):
    for name, text in (("writer.py", WRITER), ("reader.py", READER)):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text)
    for journal in ("delete", "wal"):
        data = sqlite3.connect(os.path.join(t.work, f"{journal}.db"))
        data.execute(f"PRAGMA journal_mode = {journal}")
        data.executescript("CREATE TABLE line(who TEXT, number INTEGER, text TEXT, PRIMARY KEY(who, number));"
                           "CREATE TABLE total(n INTEGER); INSERT INTO total VALUES(0);")
        data.commit()
        data.close()
    count = 3000 if t.soak else 1000
    program = t.launch(["bash", "-c", SCRIPT], env={"COUNT": str(count)})
    program.expect("READY")
    shown = b""
    for number in range(t.rounds):
        t.sleep(0.3 + 0.4 * t.random.random())
        # Journals come and go: what is done after the checkpoint stays done.
        program, text = t.cycle(program, number, at_once=True)
        shown += text
    program.expect("DONE", timeout=300)
    program.expect_exit(0)
    shown += program.terminal.text
    check(b"WRONG" not in shown, f"a reader or writer was disturbed:\n{shown[-1000:].decode(errors='replace')}")
    for journal in ("delete", "wal"):
        data = sqlite3.connect(os.path.join(t.work, f"{journal}.db"))
        check(data.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"{journal}.db is damaged")
        found = data.execute("SELECT who, count(*), min(number), max(number) FROM line GROUP BY who ORDER BY who").fetchall()
        check(found == [(who, count, 0, count - 1) for who in "abcd"], f"{journal}.db: {found}")
