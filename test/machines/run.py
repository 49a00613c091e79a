"""Runs tests under other kernels, and takes a job from one kernel to the next: scripts/test --machines [KERNEL...].

Each machine is virtual (test/machines/machine.py), with one of Debian's or Ubuntu's kernels and this machine's root file system and build.
The last line is "N passed, N failed", above it stands a table of kernels and tests."""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile
import time

import around
from kernels import SUITES, Kernel
from machine import Machine

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Which tests stand for the rest: what the kernel shows in its own way by version.
TESTS = {
    "root": ("exact", ["checkpoint/resource.py clocks", "checkpoint/resource.py threads", "checkpoint/resource.py memory",
                       "checkpoint/resource.py pipes", "checkpoint/resource.py eventfd", "checkpoint/resource.py timers",
                       "checkpoint/resource.py unix_sockets", "checkpoint/resource.py tcp_sockets", "checkpoint/old_vdso.py",
                       "faults/kernel_tls.py", "checkpoint/resource.py protections",
                       "foreign/bash_script.py", "foreign/python_prompt.py", "foreign/vim.py"]),
    "user, yama 1": ("user", ["checkpoint/resource.py threads", "checkpoint/resource.py pipes", "checkpoint/resource.py children",
                              "foreign/bash_script.py", "foreign/python_prompt.py", "foreign/gdb.py", "foreign/gdb_threads.py",
                              "foreign/strace.py"]),
}
YAMA = "/proc/sys/kernel/yama/ptrace_scope"

class Table:
    def __init__(self):
        self.rows, self.failed = [], 0

    def add(self, kernel, who, what, problem, seconds):
        self.rows.append((kernel, who, what, "failed" if problem else f"{seconds:.0f} s"))
        self.failed += 1 if problem else 0
        print(f"{kernel}: {who}: {what}: {'FAILED: ' + problem if problem else 'passed'} ({seconds:.0f} s)", flush=True)

    def print(self):
        print("| kernel | who | test | took |\n|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")
        print(f"{len(self.rows) - self.failed} passed, {self.failed} failed")


def run_tests(machine, build, table):
    for who, (mode, tests) in TESTS.items():
        # All in one boot: each says how it ended.
        script = [f"echo {1 if 'yama' in who else 0} >{YAMA}", f"export CAIRN_TEST_SLOW={machine.slow}"]
        for test in tests:
            file, *arguments = test.split()
            script.append(f"echo 'TEST {test}'; timeout 900 {ROOT}/test/run {ROOT}/test/{file} {' '.join(arguments)} --mode {mode} --build {build} "
                          f">/tmp/out 2>&1; echo \"STATUS $? $SECONDS\"; tail -n 30 /tmp/out | sed 's/^/    /'; SECONDS=0")
        _, said = machine.run("\n".join(script), timeout=3600)
        for test in tests:
            found = re.search(rf"^TEST {re.escape(test)}\nSTATUS (\d+) (\d+)\n((?:    .*\n)*)", said, re.M)
            status, seconds = (int(found[1]), int(found[2])) if found else (None, 0)
            skipped = status == 77
            problem = "" if status == 0 or skipped else (found[3] if found else "the machine came to an end: " + said[-2000:])
            table.add(machine.kernel.version, who, test + (" (skipped)" if skipped else ""), problem, seconds)


def take_around(machines, shared, build, table):
    by_name = {machine.kernel.name: machine for machine in machines}
    order = around.euler(list(by_name), {(one, other) for one in by_name for other in by_name})
    around.prepare(shared)
    jobs = f"{len(around.JOBS) + 1} jobs"
    for number, name in enumerate(order, 1):
        machine, began = by_name[name], time.monotonic()
        status, said = machine.run(around.script(build, shared, number), timeout=900)
        what = f"{jobs} begin" if number == 1 else f"the {jobs} of {by_name[order[number - 2]].kernel.version} go on"
        table.add(machine.kernel.version, "root", what, "" if status == 0 else said[-3000:], time.monotonic() - began)
        if status != 0:
            return
    for name in around.JOBS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cairn-undisturbed-") as scratch:
            problem = around.compare(name, shared, scratch)
        table.add("all", "root", f"{name}: what it prints undisturbed", problem, time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {' '.join(SUITES)}; all if none is given")
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--kvm", action="store_true", help="by KVM, where it works; else emulated")
    parser.add_argument("--only", choices=("tests", "around"))
    arguments = parser.parse_args()
    unknown = set(arguments.kernels) - set(SUITES)
    if unknown:
        parser.error(f"no such kernel: {' '.join(sorted(unknown))}; there are {' '.join(SUITES)}")
    missing = [tool for tool in ("qemu-system-x86_64", "busybox", "depmod", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"machines: {' '.join(missing)}: not installed; apt-get install qemu-system-x86 busybox-static kmod")
    build, table = arguments.build.resolve(), Table()
    with tempfile.TemporaryDirectory(prefix="cairn-machines-") as shared:
        cache = build.parent / "kernels"
        machines = [Machine(Kernel(name, cache), shared, kvm=arguments.kvm) for name in arguments.kernels or SUITES]
        if arguments.only != "tests":
            take_around(machines, shared, build, table)
        if arguments.only != "around":
            for machine in machines:
                run_tests(machine, build, table)
    table.print()
    sys.exit(1 if table.failed else 0)


main()
