/* What telling each message's number with it costs, against counting, which adds nothing: piggyback [ROUNDS].
 * Two ranks, there and back, in turn within one run, the median of all rounds and (in brackets) the fastest tenth, one way:
 *   counting  the message as it is
 *   struct    a datatype made for each call of the number's address and the payload's (the paper's way)
 *   bounce    number and payload copied behind each other, and back at the receiver
 *   separate  the number as a message of its own on a copy of the communicator */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTING, STRUCT, BOUNCE, SEPARATE, WAYS };
static const char *names[] = {"counting", "struct", "bounce", "separate"};
static MPI_Comm beside;
static char *bounce;

static MPI_Datatype both(const long *number, const void *data, int size) {
    int lengths[2] = {1, size};
    MPI_Aint at[2];
    MPI_Datatype types[2] = {MPI_LONG, MPI_BYTE}, made;
    MPI_Get_address(number, &at[0]);
    MPI_Get_address(data, &at[1]);
    MPI_Type_create_struct(2, lengths, at, types, &made);
    MPI_Type_commit(&made);
    return made;
}

static void put(int way, const void *data, int size, int to, long number) {
    if (way == COUNTING || way == SEPARATE) MPI_Send(data, size, MPI_BYTE, to, 1, MPI_COMM_WORLD);
    if (way == SEPARATE) MPI_Send(&number, 1, MPI_LONG, to, 1, beside);
    if (way == STRUCT) {
        MPI_Datatype type = both(&number, data, size);
        MPI_Send(MPI_BOTTOM, 1, type, to, 1, MPI_COMM_WORLD);
        MPI_Type_free(&type);
    }
    if (way == BOUNCE) {
        memcpy(bounce, &number, sizeof number);
        memcpy(bounce + sizeof number, data, (size_t)size);
        MPI_Send(bounce, size + (int)sizeof number, MPI_BYTE, to, 1, MPI_COMM_WORLD);
    }
}

static void take(int way, void *data, int size, int from, long number) {
    long got = number;
    if (way == COUNTING || way == SEPARATE) MPI_Recv(data, size, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (way == SEPARATE) MPI_Recv(&got, 1, MPI_LONG, from, 1, beside, MPI_STATUS_IGNORE);
    if (way == STRUCT) {
        MPI_Datatype type = both(&got, data, size);
        MPI_Recv(MPI_BOTTOM, 1, type, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
    }
    if (way == BOUNCE) {
        MPI_Recv(bounce, size + (int)sizeof got, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&got, bounce, sizeof got);
        memcpy(data, bounce + sizeof got, (size_t)size);
    }
    if (got != number) {
        fprintf(stderr, "%s: number %ld instead of %ld\n", names[way], got, number);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "piggyback: two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &beside);
    const int rounds = argc > 1 ? atoi(argv[1]) : 200;
    const int sizes[] = {8, 4096, 1 << 20};
    char *data = calloc(1, 1 << 20);
    bounce = calloc(1, (1 << 20) + sizeof(long));
    double *times = malloc(sizeof(double) * WAYS * (size_t)rounds);
    for (int s = 0; s < 3; ++s) {
        const int times_each = sizes[s] > 65536 ? 4 : 200;
        for (int r = 0; r < rounds; ++r)
            for (int way = 0; way < WAYS; ++way) {
                MPI_Barrier(MPI_COMM_WORLD);
                const double begin = MPI_Wtime();
                for (int i = 0; i < times_each; ++i) {
                    if (rank == 0) put(way, data, sizes[s], 1, i);
                    take(way, data, sizes[s], 1 - rank, i);
                    if (rank == 1) put(way, data, sizes[s], 0, i);
                }
                times[way * rounds + r] = (MPI_Wtime() - begin) / times_each / 2 * 1e6;
            }
        if (rank != 0) continue;
        printf("%8d bytes, us one way:", sizes[s]);
        for (int way = 0; way < WAYS; ++way) {
            qsort(times + way * rounds, (size_t)rounds, sizeof(double), compare);
            printf("  %s %.2f (%.2f)", names[way], times[way * rounds + rounds / 2], times[way * rounds + rounds / 10]);
        }
        printf("\n");
    }
    free(times);
    free(bounce);
    free(data);
    MPI_Comm_free(&beside);
    MPI_Finalize();
    return 0;
}
