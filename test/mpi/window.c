// One-sided operations between messages: in each of N rounds rank 0 asks one of the others, by whichever answer comes first, for its
// part, all add their parts to a sum in a window of rank 0, between two fences, and rank 0 says what it has come to. Which order the
// answers come in is chance, and what the fences wait for is in no record.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int rounds = argc > 1 ? atoi(argv[1]) : 5;
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long sum = 0;
    MPI_Win window;
    MPI_Win_create(&sum, sizeof sum, sizeof sum, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int round = 1; round <= rounds; ++round) {
        long part = 0;
        if (rank == 0) {
            for (int i = 1; i < size; ++i) {
                long answer = 0;
                MPI_Status status;
                MPI_Recv(&answer, 1, MPI_LONG, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &status);
                part += answer * status.MPI_SOURCE * i;  // depends on who came when
            }
        } else {
            part = round * 10 + rank;
            MPI_Send(&part, 1, MPI_LONG, 0, round, MPI_COMM_WORLD);
        }
        MPI_Win_fence(0, window);
        MPI_Accumulate(&part, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_fence(0, window);
        if (rank == 0) {
            printf("round %d: %ld\n", round, sum);
            fflush(stdout);
            for (int i = 1; i < size; ++i) MPI_Send(&sum, 1, MPI_LONG, i, round, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&part, 1, MPI_LONG, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
