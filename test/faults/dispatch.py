"""Of a program whose system calls are handed to its threads (PR_SET_SYSCALL_USER_DISPATCH) cairn-capture is killed (kill -9) while the dispatch is
off and the agent is in: it is on again afterwards, and the program can be saved and restarted."""
# ci: exact user
from cairn_test.killed_capture import checkpoint_killed_in, new_coordinator
from cairn_test.serving import ask, begin, finish


def test(t):
    program = begin(t, "dispatch")
    for phase in ("objects", "fork", "resume"):
        checkpoint_killed_in(t, phase)
        ask(t, program, f"after {phase}")
    new_coordinator(t)
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        ask(t, program, number)
    finish(t, program)
