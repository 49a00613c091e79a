#!/usr/bin/python3
"""An MPICH job of four ranks under mpirun, over TCP, over POSIX shared memory and over its default (System V segments as well)."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    job(t, "mpich")


main(test)
