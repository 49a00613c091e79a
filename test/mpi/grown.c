/* A process whose heap grows between its events. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    enum { EVENTS = 8, EACH = 20, TIMES = EVENTS * EACH, BYTES = 100000 };
    char *kept[TIMES];
    MPI_Init(&argc, &argv);
    for (int i = 0; i < TIMES; ++i) {
        kept[i] = memset(malloc(BYTES), i, BYTES);
        if (i % EACH == 0) MPI_Barrier(MPI_COMM_WORLD);
    }
    int sum = 0;
    for (int i = 0; i < TIMES; ++i) sum += kept[i][BYTES - 1];
    printf("sum %d\n", sum);
    for (int i = 0; i < TIMES; ++i) free(kept[i]);
    MPI_Finalize();
    return 0;
}
