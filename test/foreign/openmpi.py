"""An Open MPI job of four ranks under mpirun, over its default transport (shared memory) and over TCP."""
# ci: none (its packages are heavy: where they are installed)
from cairn_test.mpi import job


def test(t):
    job(t, "openmpi")
