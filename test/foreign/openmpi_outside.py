#!/usr/bin/python3
"""cairn inside mpirun: four Open MPI ranks, each launched for itself into one session, their launcher outside; also when the folder that
mpirun had for them has gone with it. In MPI_Init they aren't saved."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, check, main
from cairn_test.mpi import compiled, launched_one_by_one


def is_connected(pid):
    """Over TCP, to anybody."""
    with open(f"/proc/{pid}/net/tcp") as file:
        established = {words[9] for words in map(str.split, file) if words[3] == "01"}
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(os.path.join(folder, fd)).strip("socket:[]") in established for fd in os.listdir(folder))


def test(t):
    program, starter = compiled(t, "openmpi")
    if program is None:
        raise Skip("Open MPI isn't installed")
    folder = os.path.join(t.work, "tmp")
    launch = launched_one_by_one(t, program, [starter, "--oversubscribe", "--mca", "oob_tcp_if_include", "lo",
                                              "--mca", "orte_tmpdir_base", folder,
                                              *(["--allow-run-as-root"] if os.getuid() == 0 else []), "-n", "4"], folder)

    begin = os.path.join(t.work, "begin")
    job, out = launch(20, [f"STENCIL_BEGIN={begin}"])
    t.wait_until(lambda: sum(is_connected(each.get("real", each["pid"])) for each in t.members()) == 3, "MPI_Init")
    code, _, err = t.command("checkpoint")
    check(code == 3 and "it is in MPI_Init" in err and "cairn launch mpirun" in err, f"{code}: {err}")
    with open(begin, "w"):
        pass
    job.expect_exit(0, 60)


main(test)
