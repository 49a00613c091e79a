"""All that the kernel shows of a program of this folder, as a witness apart from cairn sees it (docs/witness.md), is before a checkpoint what it is
after kill -9 and restart, but for what a rule names; and a checkpoint of what was
restored says the same as the first one: witness.py NAME. What differs between two looks at the undisturbed program moves by itself."""
from cairn_test import check, recapture
from cairn_test.serving import ask, begin, cycle, finish
from cairn_test.witness import Witness

# They compute or call all the time, others write what they read (the kernel's log), or all of their threads are asleep in calls that
# whoever stops them would end, so that nobody asks where their stacks are: what they do isn't compared, only what they have.
LIVING = {"undo", "clocks", "single_shots", "notifying_timers", "kmsg", "ignored_signals"}
# These make children and take connections all the time, are numbered in the order of ids outside, which a restart doesn't choose, or have files
# of a proc of their own for whose processes, which have gone, others in another proc stand: two checkpoints have others.
MOVING = (LIVING - {"ignored_signals"}) | {"vfork", "callers", "nested_pids", "own_pid_users", "proc_files_inner"}

# Timers signal their threads all the time, and what else these have is compared. What the last signal has left on a dead stack is one
# of a few things, and may by chance be the same one in three looks.
HANDLING = {"timers"}


def test(t):
    # Bound at its first call, as ld.so does it otherwise, a function would be a difference.
    program = begin(t, t.arguments.names[0], env={"CAIRN_TEST_WATCHED": "1", "LD_BIND_NOW": "1"})
    witness = Witness(t, looks=9 if t.arguments.names[0] in HANDLING else 3)
    before = witness.looks("before")
    program = cycle(t, program, 0)
    after = witness.looks("after")
    different = witness.differences(before, after, *(["--living"] if t.arguments.names[0] in LIVING else []))
    older, newer = t.latest(), t.checkpoint()
    saved_again = "" if t.arguments.names[0] in MOVING else recapture.differences(t, older, newer, t.arguments.names[0] in HANDLING)
    ask(t, program, 0)
    finish(t, program)
    check(not different, different)
    check(not saved_again, f"a checkpoint of what was restored says otherwise:\n{saved_again}")
