/* late N: N rounds in which rank 1 waits 20 ms for rank 0's message, and then 10 ms in an Ssend until rank 2 takes it: both
 * begin to sleep when rank 1 is about to wait, so that it does on a busy machine, too. For what a trace says of
 * how long calls took. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < atoi(argv[1]); ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Recv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            usleep(20000);
            MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, 2, 3, MPI_COMM_WORLD);
            MPI_Ssend(&value, 1, MPI_INT, 2, 2, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            usleep(10000);
            MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    return 0;
}
