"""Blocking writes of 1 MiB into a pipe are never short, whatever is checkpointed, killed and restarted meanwhile."""
# ci: exact user
import os


def test(t):
    path = os.path.join(t.build, "test", "checkpoint", "transfers")
    finish = os.path.join(t.work, "finish")
    program = t.launch([path, "100" if t.soak else "20", finish])
    program.expect("READY")
    t.wait_members(2)
    for number in range(t.rounds):
        for _ in range(8):
            t.checkpoint()
            t.sleep(0.02)
        program, _ = t.cycle(program, number)
    with open(finish, "w"):
        pass
    program.expect(r"(EXIT-SUCCESS|FAILED[^\r\n]*)")
    program.expect_exit(0)
