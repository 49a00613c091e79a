"""Each of Debian's kernels with each of its distributions' programs and libc: scripts/test --matrix [--kernels K,K...] [DISTRIBUTION...].

In a virtual machine for each pair the archive of scripts/bundle is unpacked and tried: as root, as a user without any right, and as such a user
with yama's ptrace_scope 1. Everybody takes three commands from unpacking to a job that goes on (test/machines/distributions.py), and has tests of
resources, which the distribution's own compiler has built, and of other programs. The last line is "N passed, N failed"; above it a table."""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile
import time

from distributions import ROOT, THREE, unpacked
from kernels import SUITES, Kernel
from machine import Machine
from roots import DISTRIBUTIONS, Root

# What is tried in each of them, one round each: an emulated processor is ten times slower.
RESOURCES = ["threads", "memory", "pipes", "children", "unix_sockets", "tcp_sockets"]
TESTS = [*(f"checkpoint/resource.py {name}" for name in RESOURCES), "foreign/bash_script.py", "foreign/python_prompt.py"]
EVERYBODY = {"root": (0, "exact"), "user": (0, "user"), "user, yama 1": (1, "user")}
HEAD = """
export CAIRN_TEST_SLOW=%(slow)s
useradd -m traveller
chmod 755 %(shared)s
as() { if [ "$1" = root ]; then bash -c "$2"; else
    setpriv --reuid=traveller --regid=traveller --clear-groups --inh-caps=-all --bounding-set=-all env HOME=/home/traveller bash -c "$2"; fi; }
"""
TRY = """
echo %(yama)s 2>/dev/null >/proc/sys/kernel/yama/ptrace_scope
SECONDS=0
as '%(who)s' "$(cat %(shared)s/three)" >/tmp/said 2>&1; status=$?
grep -q 'ALL RIGHT' /tmp/said || status="$status, wrong"
echo "TRIED %(who)s|three commands|$status|$SECONDS"; [ "$status" = 0 ] || tail -n 30 /tmp/said | sed 's/^/    /'
for test in %(tests)s; do
    SECONDS=0
    timeout 900 python3 %(shared)s/test/support/cairn_test %(shared)s/test/$test --mode %(mode)s --rounds 1 --build %(tree)s >/tmp/said 2>&1; status=$?
    echo "TRIED %(who)s|$test|$status|$SECONDS"; [ "$status" = 0 ] || { grep -m 1 FAILED /tmp/said; tail -n 30 /tmp/said; } | sed 's/^/    /'
done
"""


def script(shared, tree, slow, tests):
    text = HEAD % {"shared": shared, "slow": slow}
    for who, (yama, mode) in EVERYBODY.items():
        text += TRY % {"who": who, "yama": yama, "mode": mode, "shared": shared, "tree": tree, "tests": " ".join(f"'{test}'" for test in tests)}
    return text


def build_programs(root, tree):
    """What the tests of resources run, for that distribution's libc. Its compiler may know C++20 only (Debian 11's)."""
    made = tree / "test/checkpoint"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    compile_all = (f"for name in {' '.join(RESOURCES)}; do g++ -std=c++20 -O1 -w -pthread -I {ROOT} -o {made}/$name {ROOT}/test/checkpoint/$name.cpp"
                   " -lrt || exit 1; done")
    status, said = root.run(["bash", "-c", compile_all], [f"ro:{ROOT / 'test'}", f"ro:{ROOT / 'common'}", f"rw:{made}"])
    if status != 0:
        sys.exit(f"matrix: {root.name}: {said[-3000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="DISTRIBUTION", help=f"of {' '.join(DISTRIBUTIONS)}; all if none is given")
    parser.add_argument("--kernels", default="bullseye,bookworm,trixie", help=f"of {','.join(SUITES)}")
    parser.add_argument("--archive", type=pathlib.Path, help="of scripts/bundle")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose name has this, and the three commands")
    arguments = parser.parse_args()
    tests = [test for test in TESTS if re.search(arguments.only, test)]
    kernels = arguments.kernels.split(",")
    unknown = set(arguments.names) - set(DISTRIBUTIONS) | set(kernels) - set(SUITES)
    if unknown:
        parser.error(f"no such distribution or kernel: {' '.join(sorted(unknown))}")
    archive = arguments.archive or max((ROOT / "build/bundle").glob("cairn-*.tar.gz"), default=None)
    if archive is None:
        sys.exit("matrix: no archive; scripts/bundle makes it")
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="cairn-matrix-") as shared:
        tree = unpacked(archive.resolve(), shared)
        shutil.copytree(ROOT / "test", pathlib.Path(shared) / "test")
        shutil.copy(archive, shared)
        here = pathlib.Path(shared) / archive.name
        (pathlib.Path(shared) / "three").write_text(THREE % {"archive": here, "name": archive.name.removesuffix(".tar.gz")})
        for name in arguments.names or DISTRIBUTIONS:
            root = Root(name, ROOT / "build/roots")
            build_programs(root, tree)
            for kernel in (Kernel(each, ROOT / "build/kernels") for each in kernels):
                machine, began = Machine(kernel, shared, root=root.path), time.monotonic()
                _, said = machine.run(script(shared, tree, machine.slow, tests), timeout=3600)
                tried = re.findall(r"^TRIED (.*)\|(.*)\|(.*)\|(\d+)\n((?:    .*\n)*)", said, re.M)
                for who, what, status, seconds, problem in tried:
                    failed += status not in ("0", "77")
                    rows.append((kernel.version, name, who, status in ("0", "77")))
                    print(f"{kernel.version}, {name}, {who}: {what}: {'passed' if status == '0' else 'skipped' if status == '77' else 'FAILED'} "
                          f"({seconds} s){chr(10) + problem if problem else ''}", flush=True)
                wanted = len(EVERYBODY) * (len(tests) + 1)
                if len(tried) != wanted:
                    failed += wanted - len(tried)
                    print(f"{kernel.version}, {name}: came to {len(tried)} of {wanted} after {time.monotonic() - began:.0f} s: {said[-2000:]}", flush=True)
    print("| kernel | distribution | " + " | ".join(EVERYBODY) + " |\n|---|---|" + "---|" * len(EVERYBODY))
    for kernel, name in dict.fromkeys(row[:2] for row in rows):
        cells = [[row[3] for row in rows if row[:3] == (kernel, name, who)] for who in EVERYBODY]
        print(f"| {kernel} | {name} | " + " | ".join(f"{sum(cell)} of {len(tests) + 1}" for cell in cells) + " |")
    print(f"{sum(row[3] for row in rows)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
