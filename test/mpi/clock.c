/* Goes by the clock: who gets the next message depends on what MPI_Wtime says. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size;
    unsigned path = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double begun = MPI_Wtime(); /* each rank asks, so that whoever departs first knows of the clock */
    for (int i = 0; i < 100; ++i) {
        int next = -1;
        if (rank == 0) next = (int)((unsigned long)(MPI_Wtime() * 1e7) % (unsigned long)(size - 1)) + 1;
        MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0) MPI_Send(&i, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
        if (rank == next) MPI_Recv(&i, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        path = path * 31u + (unsigned)next;
    }
    if (rank == 0) printf("clock: path %08x, %.9f\n", path, MPI_Wtime());
    MPI_Finalize();
    return argc > 5 && begun > 0;
}
