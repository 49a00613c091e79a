/* Bitonic merge sort: each rank sorts its part, then parts are merged pair by pair. Which partner's part comes first is left to
 * chance where it may be: a rank looks for its partner's part by Iprobe with any source, and keeps parts of later rounds that
 * come early. The number of ranks is a power of two.
 *
 * bitonic [numbers of each rank] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Keeps the lower or the upper half of both parts. */
static void merge(int *mine, const int *other, int *room, int n, int low) {
    if (low) {
        for (int i = 0, j = 0, k = 0; k < n; ++k) room[k] = mine[i] <= other[j] ? mine[i++] : other[j++];
    } else {
        for (int i = n - 1, j = n - 1, k = n - 1; k >= 0; --k) room[k] = mine[i] > other[j] ? mine[i--] : other[j--];
    }
    memcpy(mine, room, sizeof(int) * (size_t)n);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int n = argc > 1 ? atoi(argv[1]) : 1000;
    if ((size & (size - 1)) != 0) {
        if (rank == 0) fprintf(stderr, "bitonic: the number of ranks must be a power of two\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    enum { MOST_ROUNDS = 64 };
    int *early[MOST_ROUNDS] = {0};
    int *mine = malloc(sizeof(int) * (size_t)n), *room = malloc(sizeof(int) * (size_t)n);
    unsigned seed = 12345u + (unsigned)rank;
    for (int i = 0; i < n; ++i) {
        seed = seed * 1103515245u + 12345u;
        mine[i] = (int)(seed >> 1);
    }
    qsort(mine, (size_t)n, sizeof(int), compare);

    int round = 0, misses = 0;
    for (int block = 2; block <= size; block *= 2)
        for (int distance = block / 2; distance > 0; distance /= 2, ++round) {
            const int partner = rank ^ distance;
            const int ascending = (rank & block) == 0;
            MPI_Request sent;
            int *out = malloc(sizeof(int) * (size_t)n);
            memcpy(out, mine, sizeof(int) * (size_t)n);
            MPI_Isend(out, n, MPI_INT, partner, round, MPI_COMM_WORLD, &sent);
            while (early[round] == NULL) {
                int there;
                MPI_Status status;
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
                if (!there) {
                    ++misses;
                    continue;
                }
                int *part = malloc(sizeof(int) * (size_t)n);
                MPI_Recv(part, n, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                early[status.MPI_TAG] = part;
            }
            merge(mine, early[round], room, n, (rank < partner) == ascending);
            free(early[round]);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            free(out);
        }

    int *all = rank == 0 ? malloc(sizeof(int) * (size_t)n * (size_t)size) : NULL;
    MPI_Gather(mine, n, MPI_INT, all, n, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        int sorted = 1;
        unsigned hash = 0;
        for (int i = 0; i < n * size; ++i) {
            if (i > 0 && all[i - 1] > all[i]) sorted = 0;
            hash = hash * 31u + (unsigned)all[i];
        }
        printf("bitonic: %s, hash %08x\n", sorted ? "sorted" : "NOT SORTED", hash);
    }
    free(all);
    free(mine);
    free(room);
    MPI_Finalize();
    return 0;
}
