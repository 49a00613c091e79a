/* paced N: N rounds of 2 ms in which rank 0 takes a message from each other rank as they come. For what happens to a job meanwhile. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    unsigned path = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < atoi(argv[1]); ++round) {
        int value = rank;
        if (rank != 0) {
            usleep(1000u * (unsigned)(rank % 2));
            MPI_Send(&value, 1, MPI_INT, 0, round % 5, MPI_COMM_WORLD);
        }
        for (int i = 1; rank == 0 && i < size; ++i) {
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            path = path * 31u + (unsigned)(value + status.MPI_TAG);
        }
        usleep(2000);
    }
    if (rank == 0) printf("paced: path %08x\n", path);
    MPI_Finalize();
    return 0;
}
