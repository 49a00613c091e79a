"""Tries the archive of scripts/bundle in root file systems of Debian's distributions: scripts/test --distributions [NAME...].

For each of them: as a user without any right somebody unpacks it, starts a job, saves it, kills it and has it go on; then tests of other
programs, as root and as a user, with that distribution's programs and libc. The last line is "N passed, N failed"; above it a table."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from roots import DISTRIBUTIONS, Root

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOREIGN = ["bash_script", "bash_prompt", "python_prompt", "python_asyncio", "python_multiprocessing", "perl", "pipeline", "redis", "sqlite3",
           "sqlite3_writers", "vim", "less", "tmux", "xz", "sort", "fifo", "starting", "http_server", "nginx", "storm_bash",
           "storm_python", "exit_status", "two_copies"]
MODES = {"root": "exact", "user": "user"}

# Three commands from unpacking to a job that goes on, by somebody who has the archive and a folder in /tmp.
THREE = r"""
set -e
cd "$(mktemp -d)"
export CAIRN_RUNDIR=$PWD/run
cat >job.py <<'END'
import random, threading, time
import numpy
random.seed(7)
work = numpy.arange(100000, dtype=numpy.float64)
def step(number):
    work[:] = work * 0.5 + number
threads, number = [], 0
while number < 60:
    number += 1
    thread = threading.Thread(target=step, args=(number,))
    thread.start()
    thread.join()
    print(number, random.random(), work.sum(), flush=True)
    time.sleep(0.1)
END
python3 job.py >wanted &
undisturbed=$!
tar xf %(archive)s
%(name)s/bin/cairn launch --ckptdir saved python3 job.py >out 2>err &
job=$!
sleep 2
%(name)s/bin/cairn checkpoint
sleep 0.5
kill -9 $job
wait $job || true
saved/restart.sh 2>>err || { cat err; exit 1; }
wait $undisturbed
sort -nu out | diff - wanted && echo "ALL RIGHT $(wc -l <wanted) lines of $(python3 --version) and $(ldd --version | head -n 1)"
"""


def three_commands(root, archive):
    name = archive.name.removesuffix(".tar.gz")
    script = THREE % {"archive": archive, "name": name}
    user = "useradd -m traveller && exec setpriv --reuid=traveller --regid=traveller --clear-groups --inh-caps=-all --bounding-set=-all bash -c \"$1\""
    status, said = root.run(["bash", "-c", user, "three", script], [f"ro:{archive.parent}"], timeout=200)
    return "" if status == 0 and "ALL RIGHT" in said else f"ended with {status}: {said[-3000:]}"


def foreign(root, tree, test, mode):
    status, said = root.run(["python3", str(ROOT / "test/support/cairn_test"), str(ROOT / f"test/foreign/{test}.py"), "--mode", mode, "--build",
                             str(tree)], [f"ro:{ROOT}", f"ro:{tree}"], timeout=400)
    if status == 77:
        return None
    return "" if status == 0 else f"ended with {status}: {said[-3000:]}"


def unpacked(archive, folder):
    """The unpacked archive as the tests know a build: all programs in bin/, the library in lib/."""
    os.chmod(folder, 0o755)
    subprocess.run(["tar", "-C", folder, "-xf", archive], check=True)
    tree = pathlib.Path(folder) / archive.name.removesuffix(".tar.gz")
    for program in (tree / "libexec/cairn").iterdir():
        (tree / "bin" / program.name).symlink_to(program)
    (tree / "lib/libcairn.so").symlink_to(tree / "lib/cairn/libcairn.so")
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {' '.join(DISTRIBUTIONS)}; all if none is given")
    parser.add_argument("--archive", type=pathlib.Path, help="of scripts/bundle")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose name has this")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(DISTRIBUTIONS)
    if unknown:
        parser.error(f"no such distribution: {' '.join(sorted(unknown))}; there are {' '.join(DISTRIBUTIONS)}")
    if os.getuid() != 0:
        sys.exit("distributions: only root can make and enter a root file system")
    archive = arguments.archive or max((ROOT / "build/bundle").glob("cairn-*.tar.gz"), key=os.path.getmtime, default=None)
    if archive is None:
        sys.exit("distributions: no archive; scripts/bundle makes it")
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="cairn-distributions-") as folder:
        tree = unpacked(archive.resolve(), folder)
        for name in arguments.names or DISTRIBUTIONS:
            root = Root(name, ROOT / "build/roots")
            tries = [("user", "three commands", lambda root=root: three_commands(root, archive.resolve()))]
            tries += [(who, test, lambda root=root, test=test, mode=mode: foreign(root, tree, test, mode))
                      for who, mode in MODES.items() for test in FOREIGN]
            for who, test, attempt in tries:
                if not re.search(arguments.only, test):
                    continue
                began = time.monotonic()
                problem = attempt()
                seconds = time.monotonic() - began
                result = "skipped" if problem is None else "FAILED" if problem else "passed"
                failed += result == "FAILED"
                rows.append((name, who, test, result))
                print(f"{name}: {who}: {test}: {result} ({seconds:.0f} s){': ' + problem if problem else ''}", flush=True)
    print("| distribution | who | passed | failed | skipped |\n|---|---|---|---|---|")
    for name in dict.fromkeys(row[0] for row in rows):
        for who in dict.fromkeys(row[1] for row in rows):
            mine = [row[3] for row in rows if row[:2] == (name, who)]
            print(f"| {name} | {who} | {mine.count('passed')} | {mine.count('FAILED')} | {mine.count('skipped')} |")
    print(f"{sum(row[3] == 'passed' for row in rows)} passed, {failed} failed, {sum(row[3] == 'skipped' for row in rows)} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
