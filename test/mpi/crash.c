/* Rank 0 takes what comes, and kills itself when rank 1 has overtaken everybody often enough. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 2000; ++i) {
        if (rank != 0) {
            MPI_Send(&i, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        } else {
            static int ones;
            for (int k = 1; k < size; ++k) {
                int got;
                MPI_Status status;
                MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
                if (status.MPI_SOURCE == 1 && ++ones == 1000) {
                    printf("crash: here, after %d rounds\n", i);
                    fflush(stdout);
                    raise(SIGKILL);
                }
            }
        }
    }
    MPI_Finalize();
    return 0;
}
