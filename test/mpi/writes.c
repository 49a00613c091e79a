/* writes ROUNDS: each rank hands a number round the ring and writes what it has into out.RANK, as programs do that keep their results; with 2 ms
 * in each round. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    unsigned value, sum = 0;
    char name[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(name, sizeof name, "out.%d", rank);
    FILE *file = fopen(name, "w");
    if (file == NULL) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (int round = 0; round < atoi(argv[1]); ++round) {
        value = sum + (unsigned)(rank + round);
        MPI_Sendrecv_replace(&value, 1, MPI_UNSIGNED, (rank + 1) % size, round % 7, (rank + size - 1) % size, round % 7, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        sum = sum * 31 + value;
        fprintf(file, "%d %u\n", round, sum);
        fflush(file);
        usleep(2000);
    }
    fclose(file);
    printf("writes: rank %d, %u\n", rank, sum);
    MPI_Finalize();
    return 0;
}
