"""launch --io-uring=enosys: also after a restart; and without it nothing is filtered."""
# ci: exact user
import os
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def seccomp_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(line.split()[1] for line in status if line.startswith("Seccomp:"))


def test(t):
    here = seccomp_of(os.getpid())
    program = begin(t, "io_uring_off", options=("--io-uring=enosys",))
    check(seccomp_of(t.coordinator_pid()) == here, "the coordinator has got the filter as well")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        ask(t, program, number)
    finish(t, program)
    code, _, err = t.command("launch", "--io-uring=maybe", "true")
    check(code == 2 and "enosys" in err, f"a wrong word gave {code}: {err}")
