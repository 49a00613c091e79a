#!/usr/bin/python3
"""cairn inside mpirun, with Open MPI: a restart couldn't bring its ranks back, so the checkpoint is refused and says what to do; they go on."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, check, main
from cairn_test.mpi import compiled


def test(t):
    program, starter = compiled(t, "openmpi")
    if program is None:
        raise Skip("Open MPI isn't installed")
    finish, out = os.path.join(t.work, "finish"), os.path.join(t.work, "out")
    kept = [f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_")]
    job = t.launch(["env", *kept, f"STENCIL_FINISH={finish}", starter, "--oversubscribe", "--mca", "oob_tcp_if_include", "lo",
                    "--mca", "orte_tmpdir_base", t.folder,  # /tmp/ompi.HOST.0 is another's in a user namespace
                    *(["--allow-run-as-root"] if os.getuid() == 0 else []), "-n", "4", t.cairn, "launch", program, "30"],
                   native=True, terminal="none", stdout=out)

    def results():
        with open(out) as file:
            return "rank 3:" in file.read()

    t.wait_until(lambda: os.path.exists(out) and results(), "the results", 120)
    code, _, err = t.command("checkpoint")
    check(code == 3 and "is the connection of an MPI program to mpirun" in err and "cairn launch mpirun" in err, f"{code}: {err}")
    with open(finish, "w"):
        pass
    job.expect_exit(0, 60)


main(test)
