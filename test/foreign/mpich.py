#!/usr/bin/python3
"""An MPICH job of four ranks under mpirun, over TCP, over POSIX shared memory and over its default (System V segments as well)."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    transports = {"TCP": ["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo", "-genv", "MPIR_CVAR_NOLOCAL", "1",
                          "-genv", "STENCIL_LEAVE_OPEN", "1"],
                  "POSIX shared memory": ["-genv", "UCX_TLS", "posix,self"],
                  "default": []}
    job(t, "mpich", transports)


main(test)
