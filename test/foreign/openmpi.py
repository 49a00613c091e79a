#!/usr/bin/python3
"""An Open MPI job of four ranks under mpirun, over its default transport (shared memory) and over TCP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    job(t, "openmpi")


main(test)
