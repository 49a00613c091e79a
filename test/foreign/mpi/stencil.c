// A Jacobi stencil over rows that are divided among ranks: halos by Isend and Irecv, Sendrecv in turns, reductions, a broadcast,
// an all-to-all and a gather. What it prints is a hash of every bit, the same whatever the number of stops in between.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { width = 400, rows = 60, big = 40000 };

// More ranks than processors: who waits lets others run. MPICH waits inside of its transport without ever yielding, which makes it
// some fifty times slower than it need be; this stands in front of the transport's function.
unsigned ucp_worker_progress(void* worker) {
    static unsigned (*real)(void*);
    if (!real) *(void**)&real = dlsym(RTLD_NEXT, "ucp_worker_progress");
    const unsigned count = real(worker);
    if (count == 0) sched_yield();
    return count;
}

// Debian's MPICH hangs in every other MPI_Finalize over TCP, undisturbed: rank 0 waits until the transport has closed its connections,
// for which the others would have to make progress, and those wait for rank 0 at the launcher's barrier. With STENCIL_LEAVE_OPEN set
// nobody closes; the transport's end does.
void* ucp_disconnect_nb(void* endpoint) {
    static void* (*real)(void*);
    if (!real) *(void**)&real = dlsym(RTLD_NEXT, "ucp_disconnect_nb");
    return getenv("STENCIL_LEAVE_OPEN") ? NULL : real(endpoint);
}

static void finish(int count, MPI_Request* requests) {
    int done = 0;
    for (;;) {
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (done) return;
        sched_yield();
    }
}

static uint64_t mix(uint64_t hash, const void* data, size_t size) {
    const unsigned char* bytes = data;
    for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

// A file whose name is in the environment, if it is: waited for. What is in it then.
static int wait_for(const char* variable) {
    const char* path = getenv(variable);
    if (!path) return 0;
    FILE* file;
    while (!(file = fopen(path, "r"))) usleep(10000);
    const int first = fgetc(file);
    fclose(file);
    return first;
}

int main(int argc, char** argv) {
    if (getenv("OMPI_COMM_WORLD_RANK") && atoi(getenv("OMPI_COMM_WORLD_RANK")) == 3) wait_for("STENCIL_BEGIN");
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int steps = argc > 1 ? atoi(argv[1]) : 100;
    static double field[rows + 2][width], next[rows + 2][width];
    for (int y = 1; y <= rows; ++y)
        for (int x = 0; x < width; ++x) field[y][x] = (double)((rank * rows + y) * 31 % 17) + x % 13;
    static int out[big], in[big];
    const int up = (rank + ranks - 1) % ranks, down = (rank + 1) % ranks;
    uint64_t hash = 1469598103934665603u;
    // Microseconds for each step, so that a run lasts, however fast the machine.
    const unsigned pace = getenv("STENCIL_PACE") ? (unsigned)atoi(getenv("STENCIL_PACE")) : 0;
    for (int step = 0; step < steps; ++step) {
        if (pace != 0) usleep(pace);
        MPI_Request requests[4];
        MPI_Irecv(field[0], width, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(field[rows + 1], width, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(field[1], width, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(field[rows], width, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[3]);
        finish(4, requests);
        double change = 0;
        for (int y = 1; y <= rows; ++y)
            for (int x = 0; x < width; ++x) {
                next[y][x] = 0.2 * (field[y][x] + field[y - 1][x] + field[y + 1][x] + field[y][(x + 1) % width] +
                                    field[y][(x + width - 1) % width]);
                const double difference = next[y][x] - field[y][x];
                change += difference * difference;
            }
        memcpy(field[1], next[1], sizeof(double) * width * rows);
        double all[64];  // gathered and summed in one order: the sum is the same each time
        MPI_Request request;
        MPI_Iallgather(&change, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD, &request);
        finish(1, &request);
        double total = 0;
        for (int i = 0; i < ranks; ++i) total += all[i];
        hash = mix(hash, &total, sizeof total);
        if (step % 7 == 0) {  // a large message: by another protocol
            for (int i = 0; i < big; ++i) out[i] = rank * 1000 + step + i;
            MPI_Irecv(in, big, MPI_INT, down, 3, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(out, big, MPI_INT, up, 3, MPI_COMM_WORLD, &requests[1]);
            finish(2, requests);
            for (int i = 0; i < big; ++i)
                if (in[i] != down * 1000 + step + i) {
                    printf("WRONG rank %d step %d element %d: %d\n", rank, step, i, in[i]);
                    MPI_Abort(MPI_COMM_WORLD, 3);
                }
        }
        if (step % 11 == 0) {
            int each[64], got[64];
            for (int i = 0; i < ranks; ++i) each[i] = rank * 100 + i + step;
            MPI_Ialltoall(each, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD, &request);
            finish(1, &request);
            for (int i = 0; i < ranks; ++i)
                if (got[i] != i * 100 + rank + step) MPI_Abort(MPI_COMM_WORLD, 4);
        }
        if (rank == 0 && step % 10 == 0) {
            printf("step %d: %.17g\n", step, total);
            fflush(stdout);
        }
    }
    hash = mix(hash, field[1], sizeof(double) * width * rows);
    uint64_t hashes[64];
    MPI_Gather(&hash, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < ranks; ++i) printf("rank %d: %016llx\n", i, (unsigned long long)hashes[i]);
        fflush(stdout);
        if (wait_for("STENCIL_FINISH") == 'a') MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Finalize();
    return 0;
}
