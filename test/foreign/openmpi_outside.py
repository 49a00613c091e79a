#!/usr/bin/python3
"""cairn inside mpirun: four Open MPI ranks, each launched for itself into one session, their launcher outside."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, main
from cairn_test.mpi import compiled, launched_one_by_one


def test(t):
    program, starter = compiled(t, "openmpi")
    if program is None:
        raise Skip("Open MPI isn't installed")
    launched_one_by_one(t, program, [starter, "--oversubscribe", "--mca", "oob_tcp_if_include", "lo",
                                     *(["--allow-run-as-root"] if os.getuid() == 0 else []), "-n", "4"])


main(test)
