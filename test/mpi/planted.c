/* Planted bugs for the causal debugger: planted race|tag|buffer|order|choice|unheard|upstream, and paper, the example of Aoyagi and Manabe's paper. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static volatile int result;

static void send(int to, int tag, int value) {
    MPI_Send(&value, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static int receive(int from, int tag) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return value;
}

/* Rank 0 takes the first message for rank 1's. */
static void race(void) {
    if (rank == 1) usleep(200000);
    if (rank > 0) send(0, 1, rank);
    if (rank > 0) return;
    result = receive(MPI_ANY_SOURCE, 1) * 10;
    result = result + receive(MPI_ANY_SOURCE, 1);
}

/* Rank 0 asks for squares; rank 1 answers with the tag of the question before. */
static volatile int answers[5], asked;
static void tag(void) {
    for (int i = 1; i < 5 && rank == 0; ++i) send(1, i, i);
    for (int i = 1; i < 5 && rank == 0; ++i) {
        MPI_Status status;
        int value;
        MPI_Recv(&value, 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        answers[status.MPI_TAG] = value;
    }
    for (int i = 1; i < 5 && rank == 1; ++i) {
        MPI_Status status;
        int value;
        MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (i != 3) asked = status.MPI_TAG; /* forgotten once */
        send(0, asked, value * value);
    }
}

/* Rank 1 writes to a buffer that is still being sent. */
static int buffer[1 << 20];
static void overwrite(void) {
    const int count = sizeof buffer / sizeof *buffer;
    if (rank == 1) {
        MPI_Request request;
        for (int i = 0; i < count; ++i) buffer[i] = 1;
        MPI_Isend(buffer, count, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        memset(buffer, 0, sizeof buffer);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == 0) {
        usleep(200000);
        MPI_Recv(buffer, count, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int sum = 0;
        for (int i = 0; i < count; ++i) sum += buffer[i];
        result = sum;
    }
}

/* Each waits for the one before it first. */
static void order(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    result = receive((rank + size - 1) % size, 1);
    send((rank + 1) % size, 1, rank);
}

/* What rank 0 prints goes by the order of the messages. */
static void choice(void) {
    if (rank == 1) usleep(200000);
    for (int i = 0; i < 2 && rank > 0; ++i) send(0, i, rank * 10 + i);
    if (rank > 0) return;
    int values[2];
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int path = values[0] * 100 + values[1];
    for (int i = 0; i < 2; ++i) path = path * 100 + receive(MPI_ANY_SOURCE, 1);
    result = path;
    printf("path %d\n", path);
}

/* One of two messages is never received. */
static void unheard(void) {
    if (rank == 1) usleep(200000);
    if (rank > 0)
        send(0, 1, rank);
    else
        result = receive(MPI_ANY_SOURCE, 1);
}

/* A sum goes round; rank 1 adds too much, and what it adds was damaged before. */
static volatile int part[4] = {1, 1, 1, 1};
static void damage(volatile int *where) {
    where[3] = 100;
}
static void upstream(void) {
    if (rank == 1) damage(part - 2);
    int sum = rank == 0 ? 0 : receive(rank - 1, 1);
    sum += part[1];
    send((rank + 1) % size, 1, sum);
    if (rank > 0) return;
    result = receive(size - 1, 1);
    printf("result %d\n", result);
}

static void paper(void) {
    if (rank == 0) { /* P1 */
        for (int i = 1; i <= 3; ++i) send(1, i, i);
        result = receive(1, 4); /* M */
        send(2, 4, 4);
        for (int i = 1; i <= 3; ++i) receive(1, i);
        for (int i = 1; i <= 3; ++i) receive(2, i);
    }
    if (rank == 1) { /* P2 */
        for (int i = 1; i <= 3; ++i) send(0, i, i);
        receive(2, 4);
        receive(0, 3); /* e */
        send(0, 4, 4); /* M */
        for (int i = 1; i <= 2; ++i) receive(0, i);
        receive(2, 5);
    }
    if (rank == 2) { /* P3 */
        for (int i = 1; i <= 3; ++i) send(0, i, i);
        send(1, 4, 4);
        send(1, 5, 5);
        receive(0, 4);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "race") == 0) race();
    if (strcmp(what, "tag") == 0) tag();
    if (strcmp(what, "buffer") == 0) overwrite();
    if (strcmp(what, "order") == 0) order();
    if (strcmp(what, "choice") == 0) choice();
    if (strcmp(what, "unheard") == 0) unheard();
    if (strcmp(what, "upstream") == 0) upstream();
    if (strcmp(what, "paper") == 0) paper();
    if (strcmp(what, "crash") == 0 && rank == 1) {
        receive(0, 1);
        *(volatile int *)(long)argc = 1;
    }
    if (strcmp(what, "crash") == 0 && rank == 0) send(1, 1, 1);
    MPI_Finalize();
    return 0;
}
