/* Messages that are completed in another order than that in which they came: receives of one envelope waited for from the last
 * to the first, receives from anybody that took a message before those that name its sender, probed messages, persistent
 * requests, non-blocking collectives that end later than others begin. Says what it received; the numbers are checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 12, BATCH = 4 };

static int rank, size;
static unsigned long sum;

static void check(int condition, const char* what) {
    if (condition) return;
    fprintf(stderr, "crossing: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned next(unsigned* state) {
    *state = *state * 1664525U + 1013904223U;
    return *state >> 16;
}

/* From the last that was posted to the first, or in an order by chance. */
static void complete(MPI_Request* requests, int count, unsigned* seed) {
    if (next(seed) % 2 == 0) {
        for (int i = count - 1; i >= 0; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        return;
    }
    for (int done = 0, i = (int)(next(seed) % (unsigned)count); done < count;) {
        int some = 0, which[64];
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            ++done;
        }
        i = (i + 1) % count;
        MPI_Testsome(count, requests, &some, which, MPI_STATUSES_IGNORE);
        if (some != MPI_UNDEFINED) done += some;
    }
}

static void envelopes(int round, unsigned* seed) {
    int out[2][BATCH], in[2][BATCH] = {{0}};
    MPI_Request requests[4 * BATCH];
    int count = 0;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int tag = 0; tag < 2; ++tag)
        for (int i = 0; i < BATCH; ++i)
            MPI_Irecv(&in[tag][i], 1, MPI_INT, left, tag, MPI_COMM_WORLD, &requests[count++]);
    for (int i = 0; i < BATCH; ++i)
        for (int tag = 1; tag >= 0; --tag) {
            out[tag][i] = round * 1000 + tag * 100 + i;
            MPI_Isend(&out[tag][i], 1, MPI_INT, right, tag, MPI_COMM_WORLD, &requests[count++]);
        }
    complete(requests, count, seed);
    for (int tag = 0; tag < 2; ++tag)
        for (int i = 0; i < BATCH; ++i) {
            check(in[tag][i] == round * 1000 + tag * 100 + i, "messages have overtaken each other");
            sum += (unsigned long)in[tag][i];
        }
}

/* What is asked for from anybody is posted first, gets the first message, and is waited for last. */
static void anybody(int round) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int in[3] = {0}, out[3] = {round, round + 1, round + 2};
    MPI_Request requests[3];
    MPI_Irecv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, left, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&in[2], 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
    for (int i = 0; i < 3; ++i) MPI_Send(&out[i], 1, MPI_INT, right, 7, MPI_COMM_WORLD);
    for (int i = 2; i >= 0; --i) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        check(in[i] == round + i, "a receive has another message than its turn's");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void probed(int round) {
    const int other = rank ^ 1;
    if (other >= size) return;
    int first = round, second = round + 1, got = 0;
    MPI_Request sent[2];
    MPI_Isend(&first, 1, MPI_INT, other, 9, MPI_COMM_WORLD, &sent[0]);
    MPI_Isend(&second, 1, MPI_INT, other, 9, MPI_COMM_WORLD, &sent[1]);
    MPI_Message message;
    MPI_Mprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Recv(&got, 1, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(got == second, "the message that was probed has come twice");
    MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    check(got == first, "a probed message is another one");
    MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
}

static void operations(int round, unsigned* seed) {
    int mine = round + rank, all = 0, from_root = rank == round % size ? round : -1, at_root = 0;
    MPI_Request requests[3];
    MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(&from_root, 1, MPI_INT, round % size, MPI_COMM_WORLD, &requests[1]);
    MPI_Ireduce(&mine, &at_root, 1, MPI_INT, MPI_SUM, round % size, MPI_COMM_WORLD, &requests[2]);
    /* Others end their operations behind this one, and send before that. */
    int in = 0, out = round;
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 3, &in, 1, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    complete(requests, 3, seed);
    check(all == size * round + size * (size - 1) / 2, "an Iallreduce is wrong");
    check(from_root == round, "an Ibcast is wrong");
    sum += (unsigned long)(all + in + at_root);
}

static void persistent(int rounds) {
    int in = 0, out = 0;
    MPI_Request requests[2];
    MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&out, 1, MPI_INT, (rank + 1) % size, 11, MPI_COMM_WORLD, &requests[1]);
    for (out = 0; out < rounds; ++out) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check(in == out, "a persistent receive is wrong");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned seed = (unsigned)(argc > 1 ? atoi(argv[1]) : 1) + (unsigned)rank;
    for (int round = 0; round < ROUNDS; ++round) {
        envelopes(round, &seed);
        anybody(round);
        probed(round);
        operations(round, &seed);
    }
    persistent(ROUNDS);
    unsigned long all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("crossing: %lu\n", all);
    MPI_Finalize();
    return 0;
}
