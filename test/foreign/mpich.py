"""An MPICH job of four ranks under mpirun, over TCP, over POSIX shared memory and over its default (System V segments as well)."""
# ci: none (its packages are heavy: where they are installed)
from cairn_test.mpi import job


def test(t):
    job(t, "mpich")
