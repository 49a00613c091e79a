#!/usr/bin/python3
"""cairn inside mpiexec: four MPICH ranks, each launched for itself into one session, their launcher outside."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, main
from cairn_test.mpi import compiled, launched_one_by_one


def test(t):
    program, starter = compiled(t, "mpich")
    if program is None:
        raise Skip("MPICH isn't installed")
    # The transport of the other test's that an ordinary user has, too.
    launched_one_by_one(t, program, [starter, "-genv", "UCX_TLS", "posix,self", "-n", "4"])


main(test)
