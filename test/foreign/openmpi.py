#!/usr/bin/python3
"""An Open MPI job of four ranks under mpirun, over its default transport (shared memory) and over TCP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    common = ["--oversubscribe", "--mca", "oob_tcp_if_include", "lo"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    job(t, "openmpi", {
        "TCP": [*common, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"],
        "default": common})


main(test)
