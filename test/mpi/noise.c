/* Messages that can't be compressed, 100 KB each, N of them from each rank to the next: fills a record of contents. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 25000 };

int main(int argc, char **argv) {
    int rank, size;
    unsigned sum = 0, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned *out = malloc(sizeof(unsigned) * SIZE), *in = malloc(sizeof(unsigned) * SIZE), x = (unsigned)rank + 1;
    for (int i = 0; i < 10 * (argc > 1 ? atoi(argv[1]) : 1); ++i) {
        for (int k = 0; k < SIZE; ++k) {
            x ^= x << 13, x ^= x >> 17, x ^= x << 5;
            out[k] = x;
        }
        MPI_Sendrecv(out, SIZE, MPI_UNSIGNED, (rank + 1) % size, 1, in, SIZE, MPI_UNSIGNED, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int k = 0; k < SIZE; ++k) sum = sum * 31u + in[k];
    }
    MPI_Reduce(&sum, &total, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("noise: sum %08x\n", total);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
