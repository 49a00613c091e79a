/* whichever HOW: rank 0 has two receives from each other rank, and what it prints goes by which of them are complete first. For `what-if request`.
 * any, testany, some, testsome: all by that call, as they come. moved: by Waitany, the last of those that are left in the place of the one that is
 * done. rest, test: the first by Waitany, all others by Waitall, or by Test one after the other. send: the first of a send and a receive.
 * answer: who has been heard is answered. collective: the first by Waitany, where an Ibarrier is completed later. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { most = 64 };
static int rank, size, count, left, values[most], numbers[most];
static MPI_Request requests[most];
static char path[16 * most];

static void done(int index) {
    sprintf(path + strlen(path), " %d:%d", numbers[index], values[numbers[index]]);
    --left;
}

static int is(const char *how, const char *what) {
    return strcmp(how, what) == 0;
}

static void take(const char *how) {
    int indices[most], index = MPI_UNDEFINED, flag = 0, some = 0;
    if (is(how, "testany")) {
        for (; !flag || index == MPI_UNDEFINED; usleep(1000)) MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE);
        done(index);
    } else if (is(how, "some") || is(how, "testsome")) {
        for (; some == 0; usleep(1000))
            if (is(how, "some"))
                MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE);
            else
                MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE);
        for (int k = 0; k < some; ++k) done(indices[k]);
    } else {
        MPI_Waitany(is(how, "moved") ? left : count, requests, &index, MPI_STATUS_IGNORE);
        done(index);
        if (is(how, "moved")) {
            requests[index] = requests[left];
            numbers[index] = numbers[left];
            requests[left] = MPI_REQUEST_NULL;
        }
        if (is(how, "answer")) MPI_Send(&index, 1, MPI_INT, 1 + numbers[index] / 2, 2, MPI_COMM_WORLD);
    }
}

static void take_others(const char *how) {
    int open[most];
    for (int i = 0; i < count; ++i) open[i] = requests[i] != MPI_REQUEST_NULL;
    if (is(how, "test")) {
        for (int flag = 0, i = 0; i < count; i += flag, usleep(1000)) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    } else {
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < count; ++i)
        if (open[i]) done(i);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *how = argc > 1 ? argv[1] : "any";
    MPI_Request barrier = MPI_REQUEST_NULL;
    if (rank > 0) {
        usleep(20000u * (unsigned)(size - rank));
        for (int tag = 0; tag < 2; ++tag) {
            const int value = rank * 10 + tag;
            MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
            usleep(20000);
        }
        if (is(how, "send") && rank == 1) MPI_Recv(values, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 && is(how, "answer"); ++i) MPI_Recv(values, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is(how, "collective")) MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < 2 * (size - 1); ++i, ++count)
            MPI_Irecv(&values[i], 1, MPI_INT, 1 + i / 2, i % 2, MPI_COMM_WORLD, &requests[i]);
        if (is(how, "send")) MPI_Isend(&values[count], 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[count]), ++count;
        if (is(how, "collective")) MPI_Ibarrier(MPI_COMM_WORLD, &requests[count]), ++count;
        for (int i = 0; i < count; ++i) numbers[i] = i;
        left = count;
        const int all = !is(how, "rest") && !is(how, "test");
        while (left > (all ? 0 : count - 1)) take(how);
        if (!all) take_others(how);
        printf("path%s\n", path);
    }
    MPI_Finalize();
    return 0;
}
