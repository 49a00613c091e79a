"""The coordinator that a restart starts would be given the number of one of the threads that are to come back: it takes another one.
Who does have such a number is named."""
# ci: exact
# serial: it sets the kernel's counter of ids back, and others would be given ids that computations are to come back with
import os
import subprocess
from cairn_test import Failure, check

THREADS = 200

PROGRAM = r"""
import os, sys, threading
numbers, stay = [], threading.Event()
def work():
    numbers.append(threading.get_native_id())
    stay.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range(int(sys.argv[1]))]
for each in threads:
    each.start()
print("UP", *sorted(numbers), "!", flush=True)
for line in sys.stdin:
    now = sorted(int(name) for name in os.listdir("/proc/self/task"))
    print("SAME" if now == sorted(numbers + [os.getpid()]) else "OTHERS", flush=True)
"""


def next_number(number):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(number - 1))


def restarted_before(t, first, name, spared):
    """The tool's number is before that of the first thread; of what it starts some would be among them."""
    while True:
        next_number(first - 3)
        program = t.restart(name=name, wait=False)
        try:
            t.wait_restarted(program)
            return program
        except Failure as problem:
            # Others have been born in between, and the tool itself is among them: nobody could help that.
            if "(cairn-restart)" not in str(problem):
                raise
            t.programs.remove(program)
            t.pull_the_plug(spared)


def test(t):
    next_number(10_000 + t.random.randrange(10_000))  # where no number is followed by a low one
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(THREADS)])
    numbers = [int(number) for number in program.expect(r"UP ([\d ]+) !\r?\n").group(1).split()]
    first, last = numbers[0], numbers[-1]
    number = tried = 0
    while number < t.rounds or (tried == 0 and number < 10):
        number += 1
        t.checkpoint()
        # Where there is a coordinator, what the tool starts itself would be among them.
        spared = number % 2 == 0
        t.pull_the_plug(spared)
        program = restarted_before(t, first, f"restart {number}", spared)
        coordinator = t.coordinator_pid()
        threads = [int(name) for name in os.listdir(f"/proc/{coordinator}/task")]
        check(not set(threads) & set(numbers), f"the coordinator has a thread's number: {coordinator}")
        tried += not spared and program.pid < first and last < coordinator
        program.send("?\n")
        program.expect(r"SAME\r?\n")
    check(tried > 0, f"no coordinator would have had a number from {first} to {last}")
    t.checkpoint()
    t.pull_the_plug()
    for _ in range(100):
        next_number(last)
        with subprocess.Popen(["/usr/bin/sleep", "1000"]) as stranger:
            if stranger.pid == last:
                code, _, err = t.command("restart", "--ids=exact", t.ckptdir, timeout=60)
                named = f"pid {last} is taken by process {last} (sleep); end it, or restart with --ids=virtual"
            stranger.kill()
        if stranger.pid == last:
            break
    check(stranger.pid == last, f"nobody was given the number {last}")
    check(code == 1 and named in err, f"a stranger with a thread's number: {code}: {err}")
