"""Runs MPI jobs under `cairn mpi` for the tests. MPICH or Open MPI, more ranks than processors, as root or not."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


class Job:
    """One folder for records, one MPI."""

    def __init__(self, build, mpi, deadline=120):
        self.build, self.mpi, self.deadline = build, mpi, deadline
        self.cairn = f"{build}/bin/cairn"
        self.folder = tempfile.mkdtemp(prefix="cairn-test-mpi-")
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
                        OMPI_MCA_mpi_yield_when_idle="1",
                        # Whoever ends takes /tmp/ompi.HOST.UID away when it is empty, also under one who is just beginning.
                        OMPI_MCA_orte_tmpdir_base=f"{self.folder}/mpirun")

    def program(self, name):
        return f"{self.build}/test/mpi/{name}.{self.mpi}"

    def mpiexec(self, ranks):
        extra = ["--oversubscribe"] if self.mpi == "openmpi" else []
        return [f"mpiexec.{self.mpi}", *extra, "-n", str(ranks)]

    def run(self, command, code=0, env=None):
        """stdout and stderr of a command that must end with this code (None: any but 0; or one of several)."""
        try:
            done = subprocess.run(command, env=dict(self.env, **(env or {})), cwd=self.folder, text=True,
                                  capture_output=True, timeout=self.deadline, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{' '.join(command)} took more than {self.deadline} s\n{late.stdout}\n{late.stderr}") from late
        allowed = code if isinstance(code, tuple) else (code,)
        right = done.returncode != 0 if code is None else done.returncode in allowed
        expect(right, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout, done.stderr

    def plain(self, ranks, program, code=0):
        # The wrappers do nothing but give way: this MPICH doesn't by itself (docs/mpi.md).
        return self.run([*self.mpiexec(ranks), self.cairn, "mpi", "pass", *program], code)

    def record(self, ranks, name, program, code=0, options=()):
        shutil.rmtree(f"{self.folder}/{name}", ignore_errors=True)
        return self.run([*self.mpiexec(ranks), self.cairn, "mpi", "record", *options, "--out", name, *program], code)

    def replay(self, ranks, name, program, code=0, options=(), crowded=False):
        """crowded: all on one processor, where nobody goes on before somebody else gives way."""
        before = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if crowded and self.mpi == "mpich" else []
        return self.run([*before, *self.mpiexec(ranks), self.cairn, "mpi", "replay", *options, name, *program], code)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def calls_of(path):
    """The functions of MPI that a C program calls, its parts of the same folder included; what its comments speak of isn't called."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    source = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", " ", text, flags=re.S)
    called = set(re.findall(r"\bMPI_(\w+)\b", source))
    for part in re.findall(r'^#include "([^"]+)"', text, flags=re.M):
        called |= calls_of(os.path.join(os.path.dirname(path), part))
    return called


def rows_of(path):
    """What the table says of each function: {name: what}."""
    with open(path, encoding="utf-8") as file:
        rows = dict((line.split() + [""])[:2] for line in file if line.strip() and not line.startswith("#"))
    expect(len(rows) > 100, f"{path} has {len(rows)} rows")
    return rows


def chance(err):
    """How many events a record holds that the run could have had otherwise."""
    found = re.search(r"events, (\d+) of them by chance", err)
    expect(found, f"the record doesn't say what was by chance:\n{err}")
    return int(found[1])


def order(err):
    """The hash of the order of events that a run has printed."""
    found = re.search(r"order ([0-9a-f]{16})", err)
    expect(found, f"no order is printed:\n{err}")
    return found[1]


def main(test):
    """test(job, arguments) for one MPI: --mpi M --build DIR."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--mpi", required=True, choices=("mpich", "openmpi"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    job = Job(os.path.abspath(given.build), given.mpi, 600 if given.soak else 120)
    try:
        test(job, given)
    except Failed as why:
        print(f"FAILED: {why}", file=sys.stderr)
        print(f"kept: {job.folder}", file=sys.stderr)
        sys.exit(1)
    if not given.keep:
        job.remove()
    print("passed")
