"""python3 multiprocessing: a pool, a queue, a lock, shared memory, a pipe. python_multiprocessing.py forkserver: workers
are born by a server, which clients ask by Unix sockets, and find a lock by its name."""
# ci: exact
# ci python_forkserver: forkserver
import os
from cairn_test import same_as_undisturbed

PROGRAM = r"""
import multiprocessing as mp, time, os, sys

def square(n):
    time.sleep(0.02)
    return n * n

def count(lock, value, rounds):
    for _ in range(rounds):
        with lock:
            value.value += 1
        time.sleep(0.01)

def echo(source, sink):
    while (got := source.recv()) is not None:
        sink.send(got * 2)

if __name__ == "__main__":
    if sys.argv[1:]:
        mp.set_start_method(sys.argv[1])
    lock, value = mp.Lock(), mp.Value("i", 0, lock=False)
    asked, ask = mp.Pipe(duplex=False)
    answers, answer = mp.Pipe(duplex=False)
    echoing = mp.Process(target=echo, args=(asked, answer))
    counters = [mp.Process(target=count, args=(lock, value, 150)) for _ in range(3)]
    for process in counters + [echoing]:
        process.start()
    with mp.Pool(4) as pool:
        for step in range(12):
            print(step, sum(pool.map(square, range(step, step + 30))), flush=True)
            ask.send(step)
            assert answers.recv() == step * 2
    for process in counters:
        process.join()
    ask.send(None)
    echoing.join()
    print("counted", value.value, [p.exitcode for p in counters + [echoing]])
"""


def test(t):
    def prepare(folder):
        with open(os.path.join(folder, "program.py"), "w") as file:
            file.write(PROGRAM)
    same_as_undisturbed(t, ["/usr/bin/python3", "program.py", *t.arguments.names], prepare=prepare)
