/* A call of every function of the table that is followed, in each of its variants: with and without a status, wildcards, in place,
 * persistent, cancelled, freed while open, matched by a probe. Everything that it learns is folded into a sum for each rank, which is
 * printed: statuses (source, tag, count, cancelled), flags, indices, data, errors. Chance decides some of it, so that a replay has
 * something to keep to. Three ranks or more. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows_communicators.h"
#include "rows_learn.h"

static int (*const sends[])(const void *, int, MPI_Datatype, int, int, MPI_Comm) = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
static int (*const isends[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {MPI_Isend, MPI_Ibsend, MPI_Issend,
                                                                                                  MPI_Irsend};
static int (*const inits[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
    MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init};

/* Rank 0 receives `count` messages of one int with tag `tag` from each other rank, in any order. */
static void blocking(MPI_Comm comm) {
    for (int kind = 0; kind < 4; ++kind) {
        if (rank == 0) {
            int values[3];
            MPI_Status status;
            /* A ready send needs its receive posted. */
            if (kind == 3) {
                MPI_Request *requests = malloc(sizeof(MPI_Request) * (size_t)size);
                int *got = calloc((size_t)size, sizeof(int));
                for (int i = 1; i < size; ++i) MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, 30, comm, &requests[i]);
                MPI_Barrier(comm);
                for (int i = 1; i < size; ++i) {
                    MPI_Wait(&requests[i], &status);
                    learn(got[i]);
                    learn_status(&status);
                    CHECK(requests[i] == MPI_REQUEST_NULL);
                    CHECK(got[i] == status.MPI_SOURCE);
                }
                free(requests);
                free(got);
                MPI_Barrier(comm);
                continue;
            }
            for (int i = 1; i < size; ++i) {
                MPI_Recv(values, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                int count;
                MPI_Get_count(&status, MPI_INT, &count);
                CHECK(count == status.MPI_SOURCE % 3 + 1);
                CHECK(status.MPI_TAG == 10 * kind + status.MPI_SOURCE);
                learn_status(&status);
            }
            MPI_Barrier(comm); /* no message with tag 99 before */
            for (int i = 1; i < size; ++i) {
                MPI_Recv(values, 3, MPI_INT, MPI_ANY_SOURCE, 99, comm, MPI_STATUS_IGNORE);
                learn(values[0]);
            }
            MPI_Recv(values, 3, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &status);
            CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
        } else if (kind == 3) {
            MPI_Barrier(comm);
            sends[kind](&rank, 1, MPI_INT, 0, 30, comm);
        } else {
            const int values[3] = {rank, rank + 1, rank + 2};
            sends[kind](values, rank % 3 + 1, MPI_INT, 0, 10 * kind + rank, comm);
            MPI_Barrier(comm);
            sends[kind](values, 1, MPI_INT, 0, 99, comm);
            sends[kind](values, 1, MPI_INT, MPI_PROC_NULL, 99, comm);
        }
        MPI_Barrier(comm);
    }
}

enum { WAIT, TEST, WAITANY, TESTANY, WAITALL, TESTALL, WAITSOME, TESTSOME, GET_STATUS, WAYS };

/* MPI_Waitsome and MPI_Testsome. */
static void complete_some(int how, int n, MPI_Request *requests, int *values, int ignore) {
    MPI_Status *statuses = malloc(sizeof(MPI_Status) * (size_t)n);
    MPI_Status *all = ignore ? MPI_STATUSES_IGNORE : statuses;
    int *indices = malloc(sizeof(int) * (size_t)n);
    int done;
    for (int left = n; left > 0; left -= done) {
        if (how == WAITSOME)
            MPI_Waitsome(n, requests, &done, indices, all);
        else
            MPI_Testsome(n, requests, &done, indices, all);
        learn(done);
        for (int i = 0; i < done; ++i) {
            learn(indices[i]);
            learn(values[indices[i]]);
            if (!ignore) learn_status(&statuses[i]);
        }
    }
    MPI_Waitsome(n, requests, &done, indices, all);
    CHECK(done == MPI_UNDEFINED);
    MPI_Testsome(n, requests, &done, indices, all);
    CHECK(done == MPI_UNDEFINED);
    free(statuses);
    free(indices);
}

static void complete(int how, int n, MPI_Request *requests, int *values, int ignore) {
    MPI_Status *statuses = malloc(sizeof(MPI_Status) * (size_t)n);
    MPI_Status *one = ignore ? MPI_STATUS_IGNORE : statuses, *all = ignore ? MPI_STATUSES_IGNORE : statuses;
    int left = n, flag = 0, index;
    switch (how) {
        case WAIT:
            for (int i = 0; i < n; ++i) {
                MPI_Wait(&requests[i], one);
                if (!ignore) learn_status(one);
            }
            break;
        case TEST:
            for (int i = 0; i < n; ++i)
                for (flag = 0; !flag;) {
                    MPI_Test(&requests[i], &flag, one);
                    learn(flag);
                    if (flag && !ignore) learn_status(one);
                }
            break;
        case WAITANY:
            for (; left > 0; --left) {
                MPI_Waitany(n, requests, &index, one);
                learn(index);
                learn(values[index]);
                if (!ignore) learn_status(one);
            }
            MPI_Waitany(n, requests, &index, one);
            CHECK(index == MPI_UNDEFINED);
            break;
        case TESTANY:
            while (left > 0) {
                MPI_Testany(n, requests, &index, &flag, one);
                learn(flag);
                if (!flag) continue;
                learn(index);
                learn(values[index]);
                if (!ignore) learn_status(one);
                --left;
            }
            MPI_Testany(n, requests, &index, &flag, one);
            CHECK(flag && index == MPI_UNDEFINED);
            break;
        case WAITALL:
            MPI_Waitall(n, requests, all);
            for (int i = 0; i < n && !ignore; ++i) learn_status(&statuses[i]);
            break;
        case TESTALL:
            while (!flag) {
                MPI_Testall(n, requests, &flag, all);
                learn(flag);
            }
            for (int i = 0; i < n && !ignore; ++i) learn_status(&statuses[i]);
            break;
        case WAITSOME:
        case TESTSOME:
            complete_some(how, n, requests, values, ignore);
            break;
        default:
            for (int i = 0; i < n; ++i) {
                for (flag = 0; !flag;) {
                    MPI_Request_get_status(requests[i], &flag, one);
                    learn(flag);
                }
                if (!ignore) learn_status(one);
                MPI_Wait(&requests[i], one);
            }
    }
    for (int i = 0; i < n; ++i) learn(values[i]);
    free(statuses);
}

static void nonblocking(MPI_Comm comm, int persistent) {
    for (int how = 0; how < WAYS; ++how)
        for (int ignore = 0; ignore < 2; ++ignore) {
            const int kind = how % 4, n = size - 1;
            if (rank == 0) {
                MPI_Request *requests = malloc(sizeof(MPI_Request) * (size_t)n);
                MPI_Request *mine = malloc(sizeof(MPI_Request) * (size_t)n);
                int *values = calloc((size_t)n, sizeof(int));
                for (int i = 0; i < n; ++i)
                    (persistent ? MPI_Recv_init : MPI_Irecv)(&values[i], 1, MPI_INT, MPI_ANY_SOURCE,
                                                             ignore ? 7 : MPI_ANY_TAG, comm, &requests[i]);
                for (int round = 0; round < (persistent ? 3 : 1); ++round) {
                    if (persistent && round == 0)
                        MPI_Startall(n, requests);
                    else if (persistent)
                        for (int i = 0; i < n; ++i) MPI_Start(&requests[i]);
                    memcpy(mine, requests, sizeof(MPI_Request) * (size_t)n);
                    MPI_Barrier(comm);
                    complete(how, n, requests, values, ignore);
                    if (persistent) CHECK(memcmp(mine, requests, sizeof(MPI_Request) * (size_t)n) == 0);
                    MPI_Barrier(comm);
                }
                for (int i = 0; i < n; ++i) {
                    if (persistent) MPI_Request_free(&requests[i]);
                    CHECK(requests[i] == MPI_REQUEST_NULL);
                }
                free(requests);
                free(mine);
                free(values);
            } else {
                MPI_Request request;
                int value = 100 * rank;
                if (persistent) inits[kind](&value, 1, MPI_INT, 0, 7, comm, &request);
                for (int round = 0; round < (persistent ? 3 : 1); ++round) {
                    MPI_Barrier(comm);
                    value = 100 * rank + round;
                    if (persistent)
                        MPI_Start(&request);
                    else
                        isends[kind](&value, 1, MPI_INT, 0, 7, comm, &request);
                    complete(how == GET_STATUS ? WAIT : how, 1, &request, &value, 1);
                    MPI_Barrier(comm);
                }
                if (persistent) MPI_Request_free(&request);
            }
        }
}

static void probes(MPI_Comm comm) {
    for (int how = 0; how < 6; ++how) {
        if (rank != 0) {
            const int values[2] = {rank, how};
            MPI_Send(values, rank % 2 + 1, MPI_INT, 0, rank, comm);
        } else {
            for (int i = 1; i < size; ++i) {
                int got[2] = {0, 0}, flag = 0;
                MPI_Status status;
                MPI_Message message;
                MPI_Request request;
                switch (how) {
                    case 0:
                        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                        break;
                    case 1:
                        while (!flag) {
                            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
                            learn(flag);
                        }
                        break;
                    case 2:
                    case 3:
                        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status);
                        break;
                    default:
                        while (!flag) {
                            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status);
                            learn(flag);
                        }
                }
                learn_status(&status);
                const int source = status.MPI_SOURCE;
                if (how < 2) {
                    MPI_Recv(got, 2, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
                } else if (how % 2 == 0) {
                    MPI_Mrecv(got, 2, MPI_INT, &message, &status);
                } else {
                    MPI_Imrecv(got, 2, MPI_INT, &message, &request);
                    MPI_Wait(&request, &status);
                }
                learn_status(&status);
                CHECK(status.MPI_SOURCE == source && got[0] == source);
                if (how >= 2) CHECK(message == MPI_MESSAGE_NULL);
            }
            int flag = 1;
            MPI_Iprobe(MPI_ANY_SOURCE, 12345, comm, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
        }
        MPI_Barrier(comm);
    }
}

static void exchanges(MPI_Comm comm) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int out = rank, in = -1;
    MPI_Status status;
    MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, comm, &status);
    CHECK(in == left && status.MPI_SOURCE == left && status.MPI_TAG == 1);
    MPI_Sendrecv(&out, 1, MPI_INT, right, 2, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    CHECK(in == left && status.MPI_SOURCE == left && status.MPI_TAG == 2);
    MPI_Sendrecv(&out, 1, MPI_INT, right, 3, &in, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE);
    CHECK(in == left);
    MPI_Sendrecv_replace(&out, 1, MPI_INT, right, 4, MPI_ANY_SOURCE, 4, comm, &status);
    CHECK(out == left && status.MPI_SOURCE == left);
    MPI_Sendrecv_replace(&out, 1, MPI_INT, left, 5, right, 5, comm, MPI_STATUS_IGNORE);
    CHECK(out == rank);
    MPI_Barrier(comm);
}

static void cancelled(MPI_Comm comm) {
    int values[3] = {0, 0, 0}, flag;
    MPI_Request request, persistent;
    MPI_Status status;
    /* Never sent to: cancelled; with and without wildcards. */
    for (int wild = 0; wild < 2; ++wild) {
        MPI_Irecv(values, 1, MPI_INT, wild ? MPI_ANY_SOURCE : (rank + 1) % size, 777, comm, &request);
        MPI_Test(&request, &flag, &status);
        CHECK(!flag);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag);
    }
    MPI_Recv_init(values, 1, MPI_INT, MPI_ANY_SOURCE, 778, comm, &persistent);
    MPI_Start(&persistent);
    MPI_Cancel(&persistent);
    MPI_Wait(&persistent, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Request_free(&persistent);
    MPI_Barrier(comm);
    /* Cancelled or not, as it happens: one message is on its way. */
    if (rank == 0) {
        MPI_Irecv(values, 1, MPI_INT, MPI_ANY_SOURCE, 779, comm, &request);
        MPI_Barrier(comm);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        learn(flag);
        if (flag) MPI_Recv(values, 1, MPI_INT, MPI_ANY_SOURCE, 779, comm, MPI_STATUS_IGNORE);
        CHECK(values[0] == 42);
    } else {
        const int value = 42;
        MPI_Barrier(comm);
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 779, comm);
    }
    MPI_Barrier(comm);
    /* Given up while it is open. Its message is the first one of rank 1's or rank 2's. */
    if (rank == 0) {
        MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, 780, comm, &request);
        MPI_Request_free(&request);
        CHECK(request == MPI_REQUEST_NULL);
        for (int i = 2; i < size; ++i) {
            MPI_Recv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, 780, comm, &status);
            learn_status(&status);
        }
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, 780, comm);
    }
    MPI_Barrier(comm);
    learn(values[0]);
}

/* An error is returned as without the layer, and a truncated message counts as received. */
static void errors(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int values[2], kind;
    MPI_Status status;
    int result = MPI_Send(values, 1, MPI_INT, size + 5, 1, comm);
    MPI_Error_class(result, &kind);
    CHECK(kind == MPI_ERR_RANK);
    result = MPI_Recv(values, -1, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
    MPI_Error_class(result, &kind);
    CHECK(kind == MPI_ERR_COUNT);
    if (rank == 1) {
        MPI_Send((int[]){1, 2}, 2, MPI_INT, 0, 50, comm);
        MPI_Send((int[]){3, 4}, 2, MPI_INT, 0, 50, comm);
    }
    if (rank == 0) {
        result = MPI_Recv(values, 1, MPI_INT, MPI_ANY_SOURCE, 50, comm, &status);
        MPI_Error_class(result, &kind);
        CHECK(kind == MPI_ERR_TRUNCATE);
        MPI_Recv(values, 2, MPI_INT, MPI_ANY_SOURCE, 50, comm, &status);
        CHECK(values[0] == 3);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(comm);
}

static void collectives(MPI_Comm comm, int nonblocking) {
    MPI_Request request;
    int *a = calloc((size_t)size * 2, sizeof(int)), *b = calloc((size_t)size * 2, sizeof(int));
    int *ones = malloc(sizeof(int) * (size_t)size), *steps = malloc(sizeof(int) * (size_t)size);
    int *bytes = malloc(sizeof(int) * (size_t)size);
    MPI_Datatype *types = malloc(sizeof(MPI_Datatype) * (size_t)size);
    for (int i = 0; i < size; ++i) ones[i] = 1, steps[i] = i, bytes[i] = i * (int)sizeof(int), types[i] = MPI_INT;
#define EITHER(blocking, starting)                     \
    do {                                               \
        for (int i = 0; i < size; ++i) a[i] = rank + i; \
        if (nonblocking) {                             \
            starting;                                  \
            MPI_Wait(&request, MPI_STATUS_IGNORE);     \
        } else {                                       \
            blocking;                                  \
        }                                              \
        for (int i = 0; i < size; ++i) learn(b[i]);    \
    } while (0)
#define BOTH(name, ...) EITHER(MPI_##name(__VA_ARGS__, comm), MPI_I##name(__VA_ARGS__, comm, &request))
    EITHER(MPI_Barrier(comm), MPI_Ibarrier(comm, &request));
    EITHER(MPI_Bcast(a, size, MPI_INT, 1, comm), MPI_Ibcast(a, size, MPI_INT, 1, comm, &request));
    CHECK(a[0] == 1);
    EITHER(MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm), MPI_Igather(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm, &request));
    EITHER(MPI_Gatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, 1, comm),
           MPI_Igatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, 1, comm, &request));
    EITHER(MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm), MPI_Iscatter(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm, &request));
    CHECK(b[0] == rank);
    EITHER(MPI_Scatterv(a, ones, steps, MPI_INT, b, 1, MPI_INT, 0, comm),
           MPI_Iscatterv(a, ones, steps, MPI_INT, b, 1, MPI_INT, 0, comm, &request));
    EITHER(MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, comm), MPI_Iallgather(a, 1, MPI_INT, b, 1, MPI_INT, comm, &request));
    CHECK(b[size - 1] == size - 1);
    b[rank] = rank * 2;
    EITHER(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm),
           MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm, &request));
    CHECK(b[size - 1] == 2 * (size - 1));
    EITHER(MPI_Allgatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, comm),
           MPI_Iallgatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, comm, &request));
    EITHER(MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, comm), MPI_Ialltoall(a, 1, MPI_INT, b, 1, MPI_INT, comm, &request));
    EITHER(MPI_Alltoallv(a, ones, steps, MPI_INT, b, ones, steps, MPI_INT, comm),
           MPI_Ialltoallv(a, ones, steps, MPI_INT, b, ones, steps, MPI_INT, comm, &request));
    EITHER(MPI_Alltoallw(a, ones, bytes, types, b, ones, bytes, types, comm),
           MPI_Ialltoallw(a, ones, bytes, types, b, ones, bytes, types, comm, &request));
    CHECK(b[1] == 1 + rank);
    EITHER(MPI_Reduce(a, b, size, MPI_INT, MPI_SUM, 2, comm), MPI_Ireduce(a, b, size, MPI_INT, MPI_SUM, 2, comm, &request));
    EITHER(MPI_Allreduce(a, b, size, MPI_INT, MPI_SUM, comm), MPI_Iallreduce(a, b, size, MPI_INT, MPI_SUM, comm, &request));
    CHECK(b[0] == size * (size - 1) / 2);
    EITHER(MPI_Allreduce(MPI_IN_PLACE, b, size, MPI_INT, MPI_MAX, comm),
           MPI_Iallreduce(MPI_IN_PLACE, b, size, MPI_INT, MPI_MAX, comm, &request));
    EITHER(MPI_Reduce_scatter(a, b, ones, MPI_INT, MPI_SUM, comm),
           MPI_Ireduce_scatter(a, b, ones, MPI_INT, MPI_SUM, comm, &request));
    EITHER(MPI_Reduce_scatter_block(a, b, 1, MPI_INT, MPI_SUM, comm),
           MPI_Ireduce_scatter_block(a, b, 1, MPI_INT, MPI_SUM, comm, &request));
    EITHER(MPI_Scan(a, b, 1, MPI_INT, MPI_SUM, comm), MPI_Iscan(a, b, 1, MPI_INT, MPI_SUM, comm, &request));
    CHECK(b[0] == rank * (rank + 1) / 2);
    b[0] = 0;
    EITHER(MPI_Exscan(a, b, 1, MPI_INT, MPI_SUM, comm), MPI_Iexscan(a, b, 1, MPI_INT, MPI_SUM, comm, &request));
    /* On a ring, each with two neighbours. */
    MPI_Comm ring;
    const int periodic = 1;
    MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring);
    MPI_Aint far[2] = {0, (MPI_Aint)sizeof(int)};
    EITHER(MPI_Neighbor_allgather(a, 1, MPI_INT, b, 1, MPI_INT, ring),
           MPI_Ineighbor_allgather(a, 1, MPI_INT, b, 1, MPI_INT, ring, &request));
    CHECK(b[0] == (rank + size - 1) % size);
    EITHER(MPI_Neighbor_allgatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, ring),
           MPI_Ineighbor_allgatherv(a, 1, MPI_INT, b, ones, steps, MPI_INT, ring, &request));
    EITHER(MPI_Neighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, ring),
           MPI_Ineighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, ring, &request));
    EITHER(MPI_Neighbor_alltoallv(a, ones, steps, MPI_INT, b, ones, steps, MPI_INT, ring),
           MPI_Ineighbor_alltoallv(a, ones, steps, MPI_INT, b, ones, steps, MPI_INT, ring, &request));
    EITHER(MPI_Neighbor_alltoallw(a, ones, far, types, b, ones, far, types, ring),
           MPI_Ineighbor_alltoallw(a, ones, far, types, b, ones, far, types, ring, &request));
    MPI_Comm_free(&ring);
    free(a);
    free(b);
    free(ones);
    free(steps);
    free(bytes);
    free(types);
}

int main(int argc, char **argv) {
    int provided;
    if (argc > 1 && strcmp(argv[1], "threads") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int bytes = 1 << 20;
    void *buffer = malloc((size_t)bytes);
    MPI_Buffer_attach(buffer, bytes);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 2; ++round) {
        blocking(comm);
        nonblocking(comm, 0);
        nonblocking(comm, 1);
        probes(comm);
        exchanges(comm);
        cancelled(comm);
        errors(comm);
        collectives(comm, 0);
        collectives(comm, 1);
        communicators(comm);
        informed(comm, "false");
    }
    if (argc > 1 && strcmp(argv[1], "overtaking") == 0) informed(comm, "true");
    MPI_Comm_free(&comm);
    int detached;
    MPI_Buffer_detach(&buffer, &detached);
    free(buffer);
    unsigned long *sums = calloc((size_t)size, sizeof *sums);
    MPI_Gather(&sum, 1, MPI_UNSIGNED_LONG, sums, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; i < size && rank == 0; ++i) printf("rows: rank %d learned %016lx\n", i, sums[i]);
    free(sums);
    /* rows each: every rank by itself, for replays of one rank alone. */
    if (argc > 1 && strcmp(argv[1], "each") == 0) printf("rank %d of %d: %016lx, %d failures\n", rank, size, sum, failures);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures != 0;
}
