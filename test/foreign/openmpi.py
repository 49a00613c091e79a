#!/usr/bin/python3
"""An Open MPI job of four ranks under mpirun, over its default transport (shared memory) and over TCP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    common = ["--oversubscribe", "--mca", "oob_tcp_if_include", "lo"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    # Ports of its own: those that it takes by default (1024 and up) are every other job's as well, and may be taken by the restart.
    port = str(t.random.randrange(20000, 30000))
    job(t, "openmpi", {
        "TCP": [*common, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                "--mca", "btl_tcp_port_min_v4", port, "--mca", "btl_tcp_disable_family", "6"],
        "default": common})


main(test)
