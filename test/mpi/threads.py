"""Programs with MPI_THREAD_MULTIPLE: several threads that receive from anybody, probe, test, wait for some, on one communicator and on
several, send with one envelope, cancel, and make communicators and threads, recorded and replayed: each thread is given what it was
given, and the order of all calls is the same; and so is the trace. --soak: 20 replays of each way by itself."""
import os
import re

from cairn_test.mpi_job import expect, order

HERE = os.path.dirname(os.path.abspath(__file__))


def ways():
    with open(f"{HERE}/threads.c", encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r'"(\w+)"', re.search(r"ways\[\] = \{(.*?)\}", text, re.S)[1])
    expect(len(found) >= 30, f"threads.c has {found} only")
    return found


def test(job, given):
    # Open MPI has an order of its own among communicators that threads make at the same time: a replay may wait for ever (docs/mpi.md).
    mine = [way for way in ways() if way != "communicators" or job.mpi == "mpich"]
    for way in mine if given.soak else (",".join(mine),):
        name = way if given.soak else "many"
        program = [job.program("threads"), way, *([] if given.soak else ["5"])]
        out, err = job.record(3, name, program)
        expect("learned" in out and "SERIALIZED" not in err, out + err)
        for i in range(20 if given.soak else 2):
            again, err2 = job.replay(3, name, program, crowded=i % 2 == 1)
            expect(again == out, f"{way}, replay {i}: learned\n{again}\nrecorded\n{out}")
            expect(order(err2) == order(err), f"{way}, replay {i}: another order\n{err2}\n{err}")

    # As a trace: nothing left over, and the same from each replay.
    program = [job.program("threads"), "recv_any,waitsome,improbe,senders,sendrecv", "5"]
    job.record(3, "traced", program)
    told = []
    for i in range(2):
        job.replay(3, "traced", program, options=("--trace", f"trace{i}"))
        traces = [f"trace{i}/trace.{rank}" for rank in range(3)]
        job.run([job.cairn, "causality", "check", *traces])
        job.run([job.cairn, "causality", "convert", "--to", "lines", *traces, f"lines{i}"])
        with open(f"{job.folder}/lines{i}", encoding="utf-8") as file:
            told.append(re.sub(r'"(time|took)":\d+,', "", file.read()))
    expect(told[0].count("senders@threads.c") > 10, told[0][:2000])
    expect(told[0] == told[1], "two traces of one record differ in more than their times")
