#!/usr/bin/python3
"""An Open MPI job of four ranks under mpirun, over its default transport (shared memory) and over TCP."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import main
from cairn_test.mpi import job


def test(t):
    # Ports of its own: those that it takes by default (1024 and up) are every other job's as well, and may be taken by the restart. It
    # listens over IPv6 also where that is disabled, and where all goes through shared memory. And a folder: /tmp/ompi.HOST.0 is another's
    # in a user namespace.
    port = str(t.random.randrange(20000, 30000))
    common = ["--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_port_min_v4", port,
              "--mca", "btl_tcp_port_min_v6", port, "--mca", "orte_tmpdir_base", t.folder,
              *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    job(t, "openmpi", {
        "TCP": [*common, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                "--mca", "btl_tcp_disable_family", "6"],
        "default": common})


main(test)
