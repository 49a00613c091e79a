/* What goes to nobody (MPI_PROC_NULL) is no event, and stands at the end of calls that have events: rank 1 sends to rank 0 and to nobody, and then both
 * are in a collective, a different one each time. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, mine = 1, its = 0, sum = 0, all[2];
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int first = rank == 0;

    if (first)
        MPI_Recv(&its, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Sendrecv(&mine, 1, MPI_INT, 0, 0, &its, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

    if (first) {
        MPI_Recv(&its, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Isend(&mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Allgather(&sum, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);

    if (first) {
        MPI_Recv(&its, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send_init(&mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Send_init(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Startall(2, requests);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!first) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    } else {
        printf("sum %d\n", all[0] + all[1]);
    }
    MPI_Finalize();
    return 0;
}
