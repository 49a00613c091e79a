/* A planted race: the result depends on who arrives first. All ranks but 0 send an amount and what to do with it; rank 0 takes
 * them from anybody and applies them as they come, as if the order didn't matter. Exit code 1 when the account is wrong.
 *
 * race [rounds] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int rounds = argc > 1 ? atoi(argv[1]) : 10;
    long account = 1000, right = 1000;
    for (int round = 0; round < rounds; ++round) {
        if (rank != 0) {
            MPI_Request request;
            const long amount = rank * 10L + round;
            MPI_Isend(&amount, 1, MPI_LONG, 0, rank % 2, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            for (int i = 1; i < size; ++i) {
                long amount;
                MPI_Status status;
                MPI_Recv(&amount, 1, MPI_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
                /* Interest before or after the deposit is not the same. */
                account = status.MPI_TAG == 0 ? account + amount : account * 101 / 100;
                right = i % 2 == 0 ? right + i * 10L + round : right * 101 / 100;
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) {
        wrong = account != right;
        printf("race: %ld%s\n", account, wrong ? ", WRONG" : "");
    }
    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong;
}
