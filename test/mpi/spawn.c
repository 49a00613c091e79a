// The ranks exchange numbers, spawn two processes together, and rank 0 has these add to its sum, in whichever order they answer.
#include <mpi.h>
#include <stdio.h>

static int child(MPI_Comm parent, int rank) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, parent, MPI_STATUS_IGNORE);
    value += 100 + rank;
    MPI_Send(&value, 1, MPI_INT, 0, 1, parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm parent, children;
    MPI_Comm_get_parent(&parent);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (parent != MPI_COMM_NULL) return child(parent, rank);
    long sum = 0;
    for (int round = 0; round < 3; ++round) {
        int value = rank * 10 + round;
        if (rank != 0) MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        for (int i = 1; rank == 0 && i < size; ++i) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum = sum * 3 + value;
        }
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (rank == 0) {
        for (int i = 0; i < 2; ++i) MPI_Send(&i, 1, MPI_INT, i, 0, children);
        for (int i = 0; i < 2; ++i) {
            int value;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, children, MPI_STATUS_IGNORE);
            sum += value;
        }
        printf("sum %ld\n", sum);
    }
    MPI_Finalize();
    return 0;
}
