"""Messages that come before their turn: every way to receive them, on three communicators, recorded and replayed with another sender
late, to the same answers; and a replay of a flood without acknowledgements takes time linear in its messages. --soak: a million of
them, more rounds."""
import re

from cairn_test.mpi_job import expect, order


def flood(job, messages):
    """Seconds that rank 0 took to record and to replay `messages` from each of three."""
    program = [job.program("early"), "flood", str(messages)]
    out, err = job.record(4, f"flood{messages}", program)
    again, err2 = job.replay(4, f"flood{messages}", program)
    expect(again == out and order(err) == order(err2), f"flood of {messages}: another run\n{out}{err}{again}{err2}")
    return [float(re.search(r"flood: ([\d.]+) s", text)[1]) for text in (err, err2)]


def test(job, given):
    program = [job.program("early")]
    for late in (1, 3) if given.soak else (1,):
        out, err = job.run([*job.mpiexec(4), job.cairn, "mpi", "record", "--out", f"late{late}", *program], env={"CAIRN_TEST_LATE": str(late)})
        expect("rank 3 learned" in out, out)
        for i in range(20 if given.soak else given.rounds - 1):
            other = (late + 1 + i % 2 - 1) % 3 + 1
            again, err2 = job.run([*job.mpiexec(4), job.cairn, "mpi", "replay", f"late{late}", *program], env={"CAIRN_TEST_LATE": str(other)})
            expect(again == out, f"rank {other} late in replay {i}, {late} in the record: learned\n{again}\nrecorded\n{out}")
            expect(order(err2) == order(err), f"replay {i}: another order\n{err2}\n{err}")

    # Of a replay whose time grows with the square, ten times the messages take a hundred times the time: 30 s for the second of them.
    sizes = (3_333, 33_333, 333_333) if given.soak else (33_333,)
    for messages in sizes:
        recorded, replayed = flood(job, messages)
        print(f"{3 * messages} messages: recorded in {recorded:.3f} s, replayed in {replayed:.3f} s")
        expect(replayed < 10e-6 * 3 * messages + 2, f"a replay of {3 * messages} messages took {replayed} s")
