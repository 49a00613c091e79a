"""The examples take the recorded path in each replay, whatever they do when they run plainly: the order of events is the same by its
hash, and so is what they print. --soak: 50 replays of each."""
import os

from cairn_test.mpi_job import expect, order

PROGRAMS = {
    "heat": ["8", "32", "30"],
    "bitonic": ["1000"],
    "farm": ["150", "3000"],
}


def test(job, given):
    rounds = 50 if given.soak else given.rounds
    for name, arguments in PROGRAMS.items():
        program = [job.program(name), *arguments]
        out, err = job.record(4, name, program)
        recorded = order(err)
        for i in range(rounds):
            again, err = job.replay(4, name, program, crowded=i % 2 == 1)
            expect(order(err) == recorded, f"{name}, replay {i}: another order than recorded\n{err}")
            expect(again == out, f"{name}, replay {i}: printed {again!r}, recorded {out!r}")
        # On a busy machine several runs in a row can take the same path.
        others, runs = {recorded}, 0
        while runs < (rounds if given.soak else 2) or (len(others) == 1 and runs < 30):
            _, err = job.record(4, f"{name}-other", program)
            others.add(order(err))
            runs += 1
        print(f"{name}: {rounds} replays equal, {len(others)} orders in {runs} runs more")
        expect(len(others) > 1, f"{name}: every run takes the same path, so its replay shows nothing")

    # The race: recorded when the result is wrong, replayed to the same wrong result.
    program = [job.program("race"), "3"]
    for _ in range(40):
        out, _ = job.record(4, "race", program, code=(0, 1))
        if "WRONG" in out:
            break
    expect("WRONG" in out, "the race never went wrong")
    for i in range(rounds):
        again, _ = job.replay(4, "race", program, code=1)
        expect(again == out, f"race, replay {i}: {again!r}, recorded {out!r}")

    # The other way to start it.
    program = [*job.mpiexec(2), job.program("farm"), "20", "10"]
    out, err = job.run([job.cairn, "mpi", "record", "--out", "outside", *program])
    again, err2 = job.run([job.cairn, "mpi", "replay", "outside", *program])
    expect(order(err) == order(err2) and out == again, "cairn mpi outside of mpiexec: another order")
    expect(os.path.exists(f"{job.folder}/outside/rank.1"), "no record")
