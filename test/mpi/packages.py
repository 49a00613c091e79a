"""Programs that aren't ours, from Debian's packages, those of them that are installed (none is in scripts/packages.txt): ScaLAPACK's
testers (scalapack-mpi-test, for both MPIs), HPC Challenge (hpcc), mpi4py and its benchmarks (python3-mpi4py), NetPIPE
(netpipe-openmpi, netpipe-mpich2). Recorded and replayed with 4 and with 8 ranks: the same order of events. Under `cairn mpi debug`, 1,000 movements at
random each: the LU tester, LAMMPS (lammps is of Open MPI), and what test/mpi/build-others has made in $CAIRN_MPI_OTHERS. Only with --soak."""
import glob
import os
import random
import re
import shutil
import subprocess
import sys

from cairn_test.mpi_job import expect, order
from debug import at_random

SCALAPACK = "/usr/lib/x86_64-linux-gnu/scalapack"
# The condition estimator of MPICH's, on so small a matrix, doesn't come to its end without cairn either: the last line leaves it out.
SMALL_LU = """'SCALAPACK, LU factorization input file'
'MPI Machine'
'LU.out' output file name (if any)
6 device out
2 number of problems sizes
13 40 values of M
13 40 values of N
2 number of NB's
2 5 values of NB
1 number of NRHS's
3 values of NRHS
1 Number of NBRHS's
3 values of NBRHS
1 number of process grids (ordered pairs of P & Q)
2 values of P
2 values of Q
1.0 threshold
F (T or F) Test Cond. Est. and Iter. Ref. Routines
"""
# LAMMPS's own benchmark bench/in.lj, smaller; its report of times goes by other clocks than MPI_Wtime.
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 5 check no
fix 1 all nve
timer off
thermo 10
run 20
"""
# Messages of objects, from anybody, found by probes.
ANYBODY = """
from mpi4py import MPI
comm, path = MPI.COMM_WORLD, 0
if comm.rank == 0:
    status = MPI.Status()
    for _ in range(40 * (comm.size - 1)):
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        rank, i = comm.recv(source=status.source, tag=status.tag)
        path = (path * 31 + rank) % 1000003
    print("path", path)
else:
    for i in range(40):
        comm.send((comm.rank, i), dest=0, tag=i % 3)
everybody = comm.allreduce(comm.rank)
if comm.rank == 0:  # lines of several may mix
    print("all", everybody)
"""


# LAMMPS asks how much memory its process has had at most, which is another number in a copy than in a straight run, and leaves it on its stack.
SAME_USAGE = """#include <string.h>
#include <sys/resource.h>
int getrusage(int who, struct rusage *usage) { (void)who; memset(usage, 0, sizeof *usage); return 0; }
"""


def library(job, name, source):
    """Of a few lines, to be preloaded."""
    with open(f"{job.folder}/{name}.c", "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", f"{job.folder}/{name}.so", f"{job.folder}/{name}.c"], check=True)
    return f"{job.folder}/{name}.so"


def twice(job, ranks, name, program, options=(), same=True):
    out, err = job.record(ranks, name, program, options=options)
    again, err2 = job.replay(ranks, name, program)
    expect(order(err) == order(err2), f"{name}, {ranks} ranks: another order\n{err}\n{err2}")
    expect(not same or sorted(again.splitlines()) == sorted(out.splitlines()), f"{name}, {ranks} ranks: printed\n{again}\nrecorded\n{out}")
    print(f"{name}, {ranks} ranks: {re.search(r'[0-9]+ events, [0-9]+ of them by chance, [0-9]+ bytes', err)[0]}", flush=True)
    return out


def scalapack(job):
    folder = f"{SCALAPACK}/{job.mpi}-tests"
    for data in glob.glob(f"{folder}/*.dat"):
        shutil.copy(data, job.folder)
    there = [name for name in ("xdlu", "xdqr", "xdinv") if os.path.exists(f"{folder}/{name}")]
    expect(there, f"{folder} has none of the testers")
    for name in ("xdlu", "xdqr", "xdinv"):
        if os.path.exists(f"{folder}/{name}"):
            for ranks in (4, 8):
                # Times are printed.
                out = twice(job, ranks, name, [f"{folder}/{name}"], same=False)
                expect("PASSED" in out.upper() or "passed" in out, f"{name}: {out}")


def hpcc(job):
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt", encoding="utf-8") as file:
        text = file.read().replace("1000         Ns", "100          Ns")
    with open(f"{job.folder}/hpccinf.txt", "w", encoding="utf-8") as file:
        file.write(text)
    # It chooses ranks by random numbers, with the time as their seed.
    still = library(job, "still", "long time(long *t) { if (t) *t = 1767225600; return 1767225600; }")
    for ranks in (4, 8):
        results = []
        program = ["sh", "-c", f"LD_PRELOAD={still}:$LD_PRELOAD exec hpcc"]
        for step in ("record", "replay"):
            if step == "record":
                _, err = job.record(ranks, "hpcc", program, options=["--clock"])
            else:
                _, err2 = job.replay(ranks, "hpcc", program)
            with open(f"{job.folder}/hpccoutf.txt", encoding="utf-8") as file:
                results.append([line for line in file if "CPU" not in line])  # which is another clock
            os.unlink(f"{job.folder}/hpccoutf.txt")
        expect(order(err) == order(err2), f"hpcc: another order\n{err}\n{err2}")
        expect(any("End of HPC Challenge tests" in line for line in results[0]), "hpcc didn't come to its end")
        # Its speeds, too, by the recorded clock.
        expect(results[0] == results[1], "hpcc: other results in the replay")
        print(f"hpcc, {ranks} ranks: {len(results[0])} lines of results the same")


def mpi4py(job):
    with open(f"{job.folder}/anybody.py", "w", encoding="utf-8") as file:
        file.write(ANYBODY)
    for ranks in (4, 8):
        out = twice(job, ranks, "anybody", ["/usr/bin/python3", "anybody.py"])
        expect("path" in out, out)
        twice(job, ranks, "ringtest", ["/usr/bin/python3", "-m", "mpi4py.bench", "ringtest", "-n", "1000"], same=False)


def netpipe(job, program):
    # Two ranks are all that it takes.
    twice(job, 2, "netpipe", [program, "-n", "20", "-u", "4096", "-o", f"{job.folder}/np.out"], same=False)


def debugged(job, name, path, arguments, count=1000):
    program = [path, *arguments]
    if name == "lmp":
        job.env["LD_PRELOAD"] = library(job, "usage", SAME_USAGE)
    _, err = job.record(4, name, program, options=["--contents", "--clock"])
    calls = int(re.search(r"recorded 4 ranks, (\d+) events", err)[1]) // 4
    # As many copies of a rank in a run of any length: each takes milliseconds.
    at_random(job, name, program, 4, count, random.randrange(1 << 32), max(20, calls // 40), 10)
    job.env.pop("LD_PRELOAD", None)


def others(job):
    """What is debugged, as (name, path, arguments)."""
    made = os.environ.get("CAIRN_MPI_OTHERS", "")
    with open(f"{job.folder}/LU.dat", "w", encoding="utf-8") as file:
        file.write(SMALL_LU)
    with open(f"{job.folder}/in.lj", "w", encoding="utf-8") as file:
        file.write(MELT)
    found = []
    for name, package, arguments in (("xdlu", f"{SCALAPACK}/{job.mpi}-tests/xdlu", []), ("ex3", None, ["-n", "8"]), ("ex5", None, ["-n", "12", "-solver", "1"]),
                                     ("lmp", shutil.which("lmp") if job.mpi == "openmpi" else None, ["-in", "in.lj", "-log", "none"])):
        places = [path for path in (package, f"{made}/{name}.{job.mpi}") if path and os.path.exists(path)]
        if places:
            found.append((name, places[0], arguments))
    return found


def test(job, given):
    if not given.soak:
        print("only with --soak")
        return
    job.deadline = 1200
    found = 0
    if os.path.isdir(f"{SCALAPACK}/{job.mpi}-tests"):
        scalapack(job)
        found += 1
    for other in others(job):
        debugged(job, *other)
        found += 1
    if job.mpi == "openmpi" and shutil.which("hpcc"):
        hpcc(job)
        found += 1
    if job.mpi == "openmpi" and os.path.isdir("/usr/lib/python3/dist-packages/mpi4py"):
        mpi4py(job)
        found += 1
    for program in ("NPopenmpi", "NPmpich2"):
        if shutil.which(program) and program[2:].startswith(job.mpi):
            netpipe(job, program)
            found += 1
    if found == 0:
        print("none of these packages is installed", file=sys.stderr)
        sys.exit(77)
