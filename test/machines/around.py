"""Jobs that go from each kernel to each other one: every pair of them once, on one long way. Each is a session of its own; what it
has printed at the end is what it prints without an interruption."""
import os
import re
import subprocess
import time

# A job prints lines "STEP WORDS", of which the words follow from the number of the step. Whole numbers: a sum of others depends on
# the instructions by which it is made. (PYTHONUNBUFFERED would have python write each word by itself.)
PYTHON = r"""
import random, threading, time
import numpy
random.seed(7)
work = numpy.arange(1000, dtype=numpy.uint64)
def add(part, number):
    part[:] = part * numpy.uint64(3) + numpy.uint64(number)
number = 0
while True:
    number += 1
    threads = [threading.Thread(target=add, args=(work[i * 250:(i + 1) * 250], number)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(number, random.random(), work.sum(), flush=True)
    time.sleep(0.1)
"""
# On a terminal of its own, by script(1). Children, a pipe, and a coprocess that has the sum.
BASH = r"""
[[ -t 1 ]] || exit 1
coproc adder { sum=0; while read -r number; do sum=$((sum + number)); echo "$sum"; done; }
for ((step = 1; ; ++step)); do
    echo "$step" >&"${adder[1]}"
    read -r sum <&"${adder[0]}"
    printf '%d %s %s\n' "$step" "$(echo "$step" | sha1sum | cut -c 1-12)" "$sum" >>said
    sleep 0.1
done
"""
# Its socket is where 9p is not: that has none.
REDIS = r"""
redis-server --port 0 --unixsocket /tmp/around.socket --save '' --appendonly no >redis.log &
until redis-cli -s /tmp/around.socket ping 2>/dev/null | grep -q PONG; do sleep 0.1; done
while step=$(redis-cli -s /tmp/around.socket incr steps); do
    redis-cli -s /tmp/around.socket rpush list "$step" >/dev/null || exit 1
    echo "$step $(redis-cli -s /tmp/around.socket llen list) $(redis-cli -s /tmp/around.socket lindex list -1)"
    sleep 0.1
done
"""
# Two ranks; each step's number goes around and comes back with what both have added.
MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
    int rank, size;
    long sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long step = 1;; ++step) {
        long mine = step * (rank + 1), all = 0, around = step;
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
        MPI_Sendrecv_replace(&around, 1, MPI_LONG, (rank + 1) % size, 1, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0) printf("%ld %ld %ld\n", step, sum, around), fflush(stdout);
        usleep(100000);
    }
}
"""
# name: (files to write, command in the job's folder, where its lines are)
JOBS = {
    "python": ({"job.py": PYTHON}, "env -u PYTHONUNBUFFERED /usr/bin/python3 job.py", "out"),
    "bash": ({"job.sh": BASH}, "script -qfc 'bash job.sh' typescript", "said"),
    "redis": ({"job.sh": REDIS}, "bash job.sh", "out"),
    "mpich": ({"job.c": MPI}, "mpiexec.mpich -n 2 ./job", "out"),
}
LAUNCH = """
(cd %(job)s && setsid "$bin/cairn" launch --session %(job)s --ckptdir %(shared)s/%(job)s/ckpt -- %(command)s </dev/null >>out 2>err &)
"""
RESTART = """
(cd %(job)s && setsid ckpt/restart.sh --ids=virtual </dev/null >>out 2>err &)
await 'on .generation|cairn restart:' %(job)s/err
grep -q 'cairn restart:' %(job)s/err && { cat %(job)s/err; exit 1; }
"""
# It makes ten steps here, and is taken at a moment at which any kernel could go on.
GO_ON = """
before=$(tail -n 1 %(job)s/%(lines)s 2>/dev/null | cut -d ' ' -f 1); before=${before:-0}
for i in $(seq 300); do
    now=$(tail -n 1 %(job)s/%(lines)s 2>/dev/null | cut -d ' ' -f 1)
    [ "${now:-0}" -ge $((before + 10)) ] && break
    sleep 0.3
done
[ "${now:-0}" -ge $((before + 10)) ] || { echo "%(job)s stands at ${now:-nothing}:"; tail -n 5 %(job)s/err %(job)s/out; exit 1; }
for i in $(seq 30); do
    "$bin/cairn" checkpoint --timeout 100 --session %(job)s >%(job)s/taken 2>&1 || { cat %(job)s/taken; exit 1; }
    CAIRN_OLD_VDSO=1 "$bin/cairn" restart --check %(job)s/ckpt/latest >%(job)s/checked 2>&1 && break
done
[ "$i" = 30 ] && { cat %(job)s/checked; exit 1; }
"$bin/cairn" kill --session %(job)s
"""
# A program that asks the time in every way, and checks what it is told (test/checkpoint/clocks.cpp); with its own ids.
FIRST_CLOCKS = """
(setsid "$bin/cairn" launch --ckptdir "$shared/checkpoints" "$build/test/checkpoint/clocks" </dev/null >said 2>&1 &)
await READY said
"""
CLOCKS_AGAIN = """
(setsid checkpoints/restart.sh </dev/null >restarted 2>&1 &)
await 'on .generation|cairn restart:' restarted
grep -q 'cairn restart:' restarted && { cat restarted; exit 1; }
"""
# The order is taken away before the checkpoint: whoever reads it has it open.
CHECK_CLOCKS = """
echo 'check %(number)d' >new && mv new order
await 'CHECKED %(number)d|FAILED' said
rm order; sleep 1
grep FAILED said && exit 1
# What a signal has interrupted in the vdso only this kernel could finish (exit code 3): then once more.
for i in $(seq 30); do
    "$bin/cairn" checkpoint --timeout 100 >taken 2>&1 || { cat taken; exit 1; }
    CAIRN_OLD_VDSO=1 "$bin/cairn" restart --check checkpoints/latest >checked 2>&1 && break
done
[ "$i" = 30 ] && { cat checked; exit 1; }
"$bin/cairn" kill
"""
HEAD = """
set -o pipefail
build=%(build)s bin=%(build)s/bin shared=%(shared)s
export CAIRN_RUNDIR=/tmp/run CAIRN_TEST_COMMAND=%(shared)s/order CAIRN_TEST_MODE=exact
export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1
cd %(shared)s
await() {
    for i in $(seq 300); do grep -qE "$1" "$2" 2>/dev/null && return; sleep 0.3; done
    echo "waited for $1 in $2:"; cat "$2"; exit 1
}
"""


def prepare(shared, names=tuple(JOBS)):
    for name in names:
        folder = os.path.join(shared, name)
        os.mkdir(folder)
        for file, text in JOBS[name][0].items():
            with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                out.write(text)
        if "job.c" in JOBS[name][0]:
            subprocess.run(["mpicc.mpich", "-O1", "-o", "job", "job.c"], cwd=folder, check=True)


def lines_of(folder, name):
    path = os.path.join(folder, JOBS[name][2])
    with open(path, encoding="utf-8", errors="replace") as file:
        # What was killed in the middle of a line has written a part of it.
        return [line.rstrip("\n") for line in file if re.match(r"\d+ .*\n", line)]


def undisturbed(name, steps, folder):
    """What the job prints here, without cairn, up to so many steps."""
    with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
        job = subprocess.Popen(["bash", "-c", JOBS[name][1]], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
                               env={**os.environ, "UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}, start_new_session=True)
        try:
            while len(lines_of(folder, name) if os.path.exists(os.path.join(folder, JOBS[name][2])) else []) < steps:
                if job.poll() is not None:
                    raise RuntimeError(f"{name} ended by itself with {job.returncode}")
                time.sleep(0.2)
        finally:
            os.killpg(job.pid, 9)
            job.wait()
    return lines_of(folder, name)[:steps]


def compare(name, shared, scratch):
    """"" or what of the job's lines isn't as without an interruption. Steps behind a checkpoint are there twice."""
    said = lines_of(os.path.join(shared, name), name)
    by_step = {}
    for line in said:
        by_step.setdefault(int(line.split()[0]), set()).add(line)
    steps = max(by_step)
    prepare(scratch, [name])
    wanted = undisturbed(name, steps, os.path.join(scratch, name))
    for step, line in enumerate(wanted, 1):
        if by_step.get(step) != {line}:
            return f"step {step}: {by_step.get(step)}, without an interruption {line!r}"
    return ""


def script(build, shared, number):
    """What a machine does when it is the number-th on the way."""
    head = HEAD % {"build": build, "shared": shared}
    text = head + (FIRST_CLOCKS if number == 1 else CLOCKS_AGAIN) + CHECK_CLOCKS % {"number": number}
    for name, (_, command, lines) in JOBS.items():
        values = {"job": name, "command": command, "lines": lines, "shared": shared}
        text += (LAUNCH if number == 1 else RESTART) % values + GO_ON % values
    return text


def euler(names, pairs):
    """A way on which each pair of neighbours is another one (Hierholzer); all pairs of a set make such a circle."""
    way, stack = [], [names[0]]
    while stack:
        here = stack[-1]
        onward = next((name for name in names if (here, name) in pairs), None)
        if onward is None:
            way.append(stack.pop())
        else:
            pairs.remove((here, onward))
            stack.append(onward)
    return way[::-1]
