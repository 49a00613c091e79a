#!/usr/bin/python3
"""cairn inside mpiexec: four MPICH ranks, each launched for itself into one session, their launcher outside."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi_outside import RanksOnTheirOwn


def test(t):
    RanksOnTheirOwn(t, "mpich").all_goes_well()


main(test)
