"""cairn inside mpiexec: four MPICH ranks, each launched for itself into one session, their launcher outside."""
# ci: none (its packages are heavy: where they are installed)
from cairn_test.mpi_outside import RanksOnTheirOwn


def test(t):
    RanksOnTheirOwn(t, "mpich").all_goes_well()
