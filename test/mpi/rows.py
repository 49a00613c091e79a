"""Every line of the table that is followed: called in all its variants by rows.c, recorded, replayed to the same answers (status
fields, flags, indices, data, errors) and the same order. That rows.c leaves none out is read from its source and the table."""
import os
import re

from cairn_test.mpi_job import calls_of, expect, order, rows_of

HERE = os.path.dirname(os.path.abspath(__file__))


def test(job, given):
    rows, called = rows_of(f"{HERE}/../../mpi/table/functions.txt"), calls_of(f"{HERE}/rows.c")
    followed = {name for name, what in rows.items() if what not in ("local", "noted", "refused", "answer", "makes", "frees") and name != "Abort"}
    expect(len(followed) >= 90, f"the table follows {len(followed)} functions only")
    expect(followed <= called, f"rows.c doesn't call {followed - called}")

    for ranks in (3, 4) if given.soak else (4,):
        for extra in ([], ["threads"]):
            program = [job.program("rows"), *extra]
            job.plain(ranks, program)
            out, err = job.record(ranks, "rows", program)
            expect("learned" in out, out)
            expect("overtak" not in err, err)
            expect("SERIALIZED" not in err, err)
            for i in range(20 if given.soak else given.rounds):
                again, err2 = job.replay(ranks, "rows", program, crowded=i % 2 == 1)
                expect(again == out, f"replay {i}: learned\n{again}\nrecorded\n{out}")
                expect(order(err2) == order(err), f"replay {i}: another order\n{err2}\n{err}")

    # What is to be run alone has no order for several threads.
    _, err = job.record(4, "contents", [job.program("rows"), "threads"], options=["--contents"])
    expect("gets MPI_THREAD_SERIALIZED" in err, err)

    # A communicator whose messages may overtake each other is told of by each rank, once, and in the record.
    _, err = job.record(4, "informed", [job.program("rows"), "overtaking"])
    found = re.findall(r"rank (\d): MPI_Comm_dup_with_info with mpi_assert_allow_overtaking: messages", err)
    expect(sorted(found) == ["0", "1", "2", "3"], f"who tells of overtaking: {found}\n{err}")
    told, _ = job.run([job.cairn, "mpi", "check", "informed"])
    expect("mpi_assert_allow_overtaking" in told, f"the record doesn't tell of overtaking\n{told}")
