/* Heat on a plate, by relaxation: rows are spread over the ranks, each exchanges its borders with its neighbours.
 * The borders are taken as they come: receives from anybody, of which Waitany says the first (a row says by its tag which
 * border it is), and Testsome which sends are done. What is printed is the same in each run, the path to it isn't.
 *
 * heat [rows of each rank] [columns] [iterations] */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FROM_ABOVE = 1, FROM_BELOW = 2 };

static double *cell(double *plate, int columns, int row) {
    return plate + (size_t)row * (size_t)columns;
}

static void exchange(double *plate, int rows, int columns, int up, int down, double *arrived[2]) {
    MPI_Request requests[2], sends[2];
    MPI_Status statuses[2];
    int expected = 0;
    /* One neighbour may be a row ahead of the other, so each receive asks for one border. */
    if (up != MPI_PROC_NULL)
        MPI_Irecv(arrived[expected], columns, MPI_DOUBLE, MPI_ANY_SOURCE, FROM_ABOVE, MPI_COMM_WORLD, &requests[expected]),
            ++expected;
    if (down != MPI_PROC_NULL)
        MPI_Irecv(arrived[expected], columns, MPI_DOUBLE, MPI_ANY_SOURCE, FROM_BELOW, MPI_COMM_WORLD, &requests[expected]),
            ++expected;
    MPI_Isend(cell(plate, columns, 1), columns, MPI_DOUBLE, up, FROM_BELOW, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(cell(plate, columns, rows), columns, MPI_DOUBLE, down, FROM_ABOVE, MPI_COMM_WORLD, &sends[1]);
    for (int i = 0; i < expected; ++i) {
        int which;
        MPI_Status status;
        MPI_Waitany(expected, requests, &which, &status);
        memcpy(cell(plate, columns, status.MPI_TAG == FROM_ABOVE ? 0 : rows + 1), arrived[which],
               sizeof(double) * (size_t)columns);
    }
    for (int left = 2; left > 0;) {
        int done, indices[2];
        MPI_Testsome(2, sends, &done, indices, statuses);
        if (done == MPI_UNDEFINED) break;
        left -= done;
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int rows = argc > 1 ? atoi(argv[1]) : 8, columns = argc > 2 ? atoi(argv[2]) : 32;
    const int iterations = argc > 3 ? atoi(argv[3]) : 50;
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;

    double *plate = calloc((size_t)(rows + 2) * (size_t)columns, sizeof *plate);
    double *next = calloc((size_t)(rows + 2) * (size_t)columns, sizeof *next);
    double *arrived[2];
    for (int i = 0; i < 2; ++i) arrived[i] = calloc((size_t)columns, sizeof(double));
    if (rank == 0)
        for (int c = 0; c < columns; ++c) plate[c] = next[c] = 100.0;

    double change = 0;
    for (int i = 0; i < iterations; ++i) {
        exchange(plate, rows, columns, up, down, arrived);
        double mine = 0;
        for (int r = 1; r <= rows; ++r)
            for (int c = 1; c < columns - 1; ++c) {
                double *at = cell(plate, columns, r) + c;
                double value = (at[-1] + at[1] + at[-columns] + at[columns]) / 4;
                mine = fmax(mine, fabs(value - *at));
                cell(next, columns, r)[c] = value;
            }
        if (rank == 0) memcpy(next, plate, sizeof(double) * (size_t)columns);
        double *swap = plate;
        plate = next;
        next = swap;
        if (i % 10 == 9) MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double sum = 0, total = 0;
    for (int r = 1; r <= rows; ++r)
        for (int c = 0; c < columns; ++c) sum += cell(plate, columns, r)[c];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("heat: sum %.9g, last change %.9g\n", total, change);
    MPI_Finalize();
    free(plate);
    free(next);
    free(arrived[0]);
    free(arrived[1]);
    return 0;
}
