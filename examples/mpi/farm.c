/* A task farm: rank 0 hands out tasks to whoever asks, and takes results from anybody. Prints who did which task, which
 * differs from run to run.
 *
 * farm [tasks] [most rounds of work in a task] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORK = 1, RESULT = 2, STOP = 3 };

static unsigned work(unsigned task, unsigned most) {
    unsigned x = task * 2654435761u + 1;
    const unsigned rounds = most > 0 ? x % most : 0;
    for (unsigned i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
    return x;
}

static void master(int size, int tasks) {
    unsigned next = 0, sum = 0, path = 0;
    int working = 0;
    for (int worker = 1; worker < size; ++worker) {
        if (next < (unsigned)tasks) {
            MPI_Send(&next, 1, MPI_UNSIGNED, worker, WORK, MPI_COMM_WORLD);
            ++next;
            ++working;
        } else {
            MPI_Send(&next, 1, MPI_UNSIGNED, worker, STOP, MPI_COMM_WORLD);
        }
    }
    while (working > 0) {
        unsigned result;
        MPI_Status status;
        MPI_Recv(&result, 1, MPI_UNSIGNED, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
        sum += result;
        path = path * 31u + (unsigned)status.MPI_SOURCE;
        const int more = next < (unsigned)tasks;
        MPI_Send(&next, 1, MPI_UNSIGNED, status.MPI_SOURCE, more ? WORK : STOP, MPI_COMM_WORLD);
        if (more)
            ++next;
        else
            --working;
    }
    printf("farm: sum %08x, path %08x\n", sum, path);
}

static void worker(unsigned most) {
    for (;;) {
        unsigned task;
        MPI_Status status;
        MPI_Recv(&task, 1, MPI_UNSIGNED, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == STOP) return;
        const unsigned result = work(task, most);
        MPI_Send(&result, 1, MPI_UNSIGNED, 0, RESULT, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        master(size, argc > 1 ? atoi(argv[1]) : 200);
    else
        worker(argc > 2 ? (unsigned)atoi(argv[2]) : 20000u);
    MPI_Finalize();
    return 0;
}
