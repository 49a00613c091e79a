/* steady ROUNDS MEGABYTES: two ranks send each other a number ROUNDS times, or one sends it to itself, and write what they got somewhere in their memory. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int other = size - 1 - rank;
    const long rounds = argc > 1 ? atol(argv[1]) : 1000;
    const size_t count = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1) << 17;
    uint64_t *memory = calloc(count, sizeof *memory), state = 88172645463325252u + (uint64_t)rank;
    for (long i = 0; i < rounds; ++i) {
        uint64_t got;
        if (other == rank) {
            MPI_Sendrecv(&state, 1, MPI_UINT64_T, rank, 0, &got, 1, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            if (rank == 0) MPI_Send(&state, 1, MPI_UINT64_T, other, 0, MPI_COMM_WORLD);
            MPI_Recv(&got, 1, MPI_UINT64_T, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1) MPI_Send(&state, 1, MPI_UINT64_T, other, 0, MPI_COMM_WORLD);
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memory[(state ^ got) % count] += got;
    }
    printf("hour: rank %d, %016llx\n", rank, (unsigned long long)state);
    free(memory);
    MPI_Finalize();
    return 0;
}
