"""A traced process ends in the moment of a checkpoint: its end is told to its tracer first, and then to its parent, who is another
one. The checkpoint waits until the tracer has been told; after a restart neither of them misses it."""
# ci: exact
from cairn_test import check

PROGRAM = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
SEIZE = 0x4206

def round(number):
    told, tell = os.pipe()
    wait, go = os.pipe()
    middle = os.fork()
    if middle == 0:
        child = os.fork()
        if child == 0:
            os.read(wait, 1)
            time.sleep(0.1)
            os._exit(number % 100)
        os.write(tell, b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status))
    child = int(os.read(told, 20))
    os.close(told), os.close(tell)
    # A checkpoint or a restart that is just letting everybody go has the child for a moment longer.
    for tries in range(100):
        if libc.ptrace(SEIZE, child, None, None) == 0:
            break
        time.sleep(0.001)
    else:
        sys.exit(f"PTRACE_SEIZE: {os.strerror(ctypes.get_errno())}")
    os.write(go, b"!")
    os.close(wait), os.close(go)
    time.sleep(1)
    seen, status = os.waitpid(child, 0)
    assert (seen, os.waitstatus_to_exitcode(status)) == (child, number % 100), (seen, status)
    seen, status = os.waitpid(middle, 0)
    assert (seen, os.waitstatus_to_exitcode(status)) == (middle, number % 100), (seen, status)
    print(f"round {number}", flush=True)

for number in range(int(sys.argv[1])):
    round(number)
print("the end", flush=True)
"""


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, str(4 * t.rounds + 2)])
    for number in range(t.rounds):
        program.expect(rf"round {4 * number}\r?\n")
        t.sleep(0.6)  # the child has ended, and its tracer sleeps on
        program, _ = t.cycle(program, number)
    program.expect(r"the end\r?\n")
    check("Error" not in program.terminal.tail(), program.terminal.tail())
    program.expect_exit(0)
