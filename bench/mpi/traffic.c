/* Traffic to measure with: traffic KIND COUNT. Prints the seconds that rank 0 took and the number of events of all ranks.
 * latency: 8 bytes there and back; bandwidth: 1 MiB there, a word back; wildcards: everybody sends 64 bytes to rank 0, which receives from
 * any; self: the same within each process, without another: what a call costs; stencil: borders of 1000 doubles and 20 us of work;
 * heat: a stencil that computes; collectives: Allreduce of a double; farm: rank 0 answers whoever asks first, COUNT times. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile double sink;

static void work(double microseconds) {
    const double end = MPI_Wtime() + microseconds * 1e-6;
    while (MPI_Wtime() < end) sink += 1;
}

/* Heat in a plate of 500 rows of 1000 cells in each process, whose neighbours' border rows it gets at each step: 8 MB that are written to again and
 * again, more than half a millisecond of work for 8 KB to each neighbour. Returns the events of this process. */
static long heat(int rank, int size, long count) {
    enum { rows = 500, width = 1000 };
    double(*now)[width] = calloc(rows + 2, sizeof *now), (*next)[width] = calloc(rows + 2, sizeof *next);
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int x = 0; x < width; ++x) now[1][x] = x + rank;
    for (long i = 0; i < count; ++i) {
        MPI_Request requests[4];
        MPI_Irecv(now[0], width, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now[rows + 1], width, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now[1], width, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now[rows], width, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int y = 1; y <= rows; ++y)
            for (int x = 1; x < width - 1; ++x)
                next[y][x] = 0.25 * (now[y - 1][x] + now[y + 1][x] + now[y][x - 1] + now[y][x + 1]);
        double(*last)[width] = now;
        now = next;
        next = last;
    }
    sink = now[rows / 2][width / 2];
    free(now);
    free(next);
    return 5 * count;
}

/* Whoever has been answered asks again, so each answer decides who comes next. Returns the events of this process. */
static long farm(int rank, int size, long count) {
    long word = 0, events = 0;
    MPI_Status status;
    if (rank > 0) {
        do {
            MPI_Send(&word, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_LONG, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            events += 2;
        } while (status.MPI_TAG == 1);
        return events;
    }
    for (long i = 0; i < count + size - 1; ++i) {
        MPI_Recv(&word, 1, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        MPI_Send(&word, 1, MPI_LONG, status.MPI_SOURCE, i < count ? 1 : 2, MPI_COMM_WORLD);
        events += 2;
    }
    return events;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *kind = argc > 1 ? argv[1] : "latency";
    const long count = argc > 2 ? atol(argv[2]) : 1000;
    long events = 0;
    const int most = 1 << 20;
    char *a = calloc(1, (size_t)most), *b = calloc(1, (size_t)most);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const int is_farm = strcmp(kind, "farm") == 0, is_heat = strcmp(kind, "heat") == 0;
    if (is_farm) events = farm(rank, size, count);
    if (is_heat) events = heat(rank, size, count);
    for (long i = 0; i < count && !is_farm && !is_heat; ++i) {
        if (strcmp(kind, "latency") == 0 || strcmp(kind, "bandwidth") == 0) {
            const int there = kind[0] == 'l' ? 8 : most;
            if (rank == 0) {
                MPI_Send(a, there, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
                MPI_Recv(b, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == 1) {
                MPI_Recv(b, there, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(a, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
            }
            events += rank < 2 ? 2 : 0;
        } else if (strcmp(kind, "wildcards") == 0) {
            if (rank == 0)
                for (int k = 1; k < size; ++k)
                    MPI_Recv(b, 64, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), ++events;
            else
                MPI_Send(a, 64, MPI_BYTE, 0, 1, MPI_COMM_WORLD), ++events;
            /* No more than a window on its way. */
            if (i % 64 == 63) MPI_Barrier(MPI_COMM_WORLD), ++events;
        } else if (strcmp(kind, "self") == 0) {
            MPI_Request request;
            MPI_Irecv(b, 64, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &request);
            MPI_Send(a, 64, MPI_BYTE, 0, 1, MPI_COMM_SELF);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            events += 3;
        } else if (strcmp(kind, "stencil") == 0) {
            MPI_Request requests[4];
            const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
            MPI_Irecv(a, 8000, MPI_BYTE, up, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(a + 8000, 8000, MPI_BYTE, down, 2, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(b, 8000, MPI_BYTE, up, 2, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(b + 8000, 8000, MPI_BYTE, down, 1, MPI_COMM_WORLD, &requests[3]);
            work(20);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            events += 5;
        } else {
            double mine = rank, sum;
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            ++events;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - begin;
    long all = 0;
    MPI_Reduce(&events, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.9f %ld\n", seconds, all);
    MPI_Finalize();
    free(a);
    free(b);
    return 0;
}
