"""A reboot in miniature: the restart runs where CLOCK_MONOTONIC and CLOCK_BOOTTIME are far behind those of the checkpoint.
No timeout is wrong, no wait hangs, and no clock of the program's goes back."""
import os
import time
from cairn_test import Skip
from cairn_test.serving import ask, begin, finish


def test(t):
    back = -int(min(1000, time.clock_gettime(time.CLOCK_MONOTONIC) / 3))  # a machine just started has no 1000 s to lose
    space = ["unshare", "-T", "--monotonic", str(back), "--boottime", str(back)]
    if t.mode == "user":
        space[1:1] = ["-U", "--map-current-user"]
    code, _, err = t.run([*space, "true"])
    if code != 0:
        raise Skip(f"no time namespace here: {err.strip()}")
    wrapper = os.path.join(t.work, "restart-after-reboot")
    with open(wrapper, "w") as file:
        file.write(f"#!/bin/sh\nexec {' '.join(space)} {t.ckptdir}/restart.sh \"$@\"\n")
    os.chmod(wrapper, 0o755)

    program = begin(t, "rebooted")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number, spare_coordinator=False, script=wrapper)  # a reboot spares nobody
        ask(t, program, number)
    finish(t, program)
