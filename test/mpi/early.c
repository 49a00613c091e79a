/* Messages that come before their turn. Ranks 1 to 3 send to rank 0, which takes what comes, without a word back; who of them
 * sends late is told by CAIRN_TEST_LATE, so that a replay finds the messages there in another order than they were recorded. Every way to
 * receive, on three communicators, with long, short, empty and truncated messages; what is learned is printed as a sum.
 * early flood N: N messages from each, nobody late. Four ranks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rows_learn.h"

enum { MESSAGES = 48, LONG = 40000 };
enum { RECV, WAITALL, WAITSOME, TESTANY, PROBE, IPROBE, MPROBE, IMPROBE, PERSISTENT, SENDRECV, REPLACE, BY_NAME, BY_NAME_PERSISTENT,
       TRUNCATED, CANCELLED, KINDS };

static int buffer[2 * LONG];
static MPI_Datatype apart; /* two ints with a gap between */

static void seen(const MPI_Status *status, const int *data, int count) {
    learn_status(status);
    for (int i = 0; i < count; ++i) learn(data[i]);
}

static void flood(int messages) {
    if (rank != 0) {
        for (int i = 0; i < messages; ++i) MPI_Send(&i, 1, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
        return;
    }
    const double start = MPI_Wtime();
    for (int i = 0; i < messages * (size - 1); ++i) {
        MPI_Status status;
        MPI_Recv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        seen(&status, buffer, 1);
    }
    fprintf(stderr, "flood: %.3f s\n", MPI_Wtime() - start);
}

static void send_all(MPI_Comm comm) {
    for (int i = 0; i < MESSAGES; ++i) {
        /* Of Recv's messages some are long, so that they stay with their sender. */
        const int length = i % 12 == 7 ? LONG : i % 5;
        for (int k = 0; k < length; ++k) buffer[k] = 1000 * rank + 10 * i + k;
        MPI_Request request;
        MPI_Isend(buffer, length, MPI_INT, 0, i % 3, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The number of messages, and what they have at most, as rank 0 needs it. */
static void take_all(MPI_Comm comm, int kind) {
    const int all = MESSAGES * 3;
    MPI_Status status, statuses[8];
    MPI_Request requests[8];
    static int room[8][LONG];
    int flag, index, count, indices[8];
    memset(buffer, 0, sizeof buffer);
    for (int i = 0; i < all; ++i) switch (kind) {
            case RECV:
                MPI_Recv(buffer, LONG, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                seen(&status, buffer, 8);
                break;
            case WAITALL:
            case WAITSOME:
            case TESTANY:
                for (int k = 0; k < 8; ++k) MPI_Irecv(room[k], LONG, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[k]);
                if (kind == WAITALL) {
                    MPI_Waitall(8, requests, statuses);
                    for (int k = 0; k < 8; ++k) seen(&statuses[k], room[k], 4);
                }
                for (int left = kind == WAITSOME ? 8 : 0; left > 0; left -= count) {
                    MPI_Waitsome(8, requests, &count, indices, statuses);
                    for (int k = 0; k < count; ++k) seen(&statuses[k], room[indices[k]], 4);
                }
                for (int left = kind == TESTANY ? 8 : 0; left > 0; left -= flag) {
                    MPI_Testany(8, requests, &index, &flag, &status);
                    if (flag) seen(&status, room[index], 4);
                }
                i += 7;
                break;
            case PROBE:
            case IPROBE:
                flag = 0;
                if (kind == PROBE) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                while (kind == IPROBE && !flag) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
                learn_status(&status);
                MPI_Recv(buffer, LONG, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
                seen(&status, buffer, 4);
                break;
            case MPROBE:
            case IMPROBE: {
                MPI_Message message;
                flag = 0;
                if (kind == MPROBE) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status);
                while (kind == IMPROBE && !flag) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status);
                learn_status(&status);
                if (i % 2) {
                    MPI_Mrecv(buffer, LONG / 2, apart, &message, &status);
                } else {
                    MPI_Imrecv(buffer, LONG / 2, apart, &message, &requests[0]);
                    MPI_Wait(&requests[0], &status);
                }
                seen(&status, buffer, 4);
                break;
            }
            case PERSISTENT:
            case BY_NAME_PERSISTENT:
                for (int k = 0; k < 3; ++k) {
                    const int from = kind == PERSISTENT ? MPI_ANY_SOURCE : 3 - k;
                    MPI_Recv_init(room[k], LONG, MPI_INT, from, MPI_ANY_TAG, comm, &requests[k]);
                }
                for (; i < all; i += 3) {
                    MPI_Startall(3, requests);
                    MPI_Waitall(3, requests, statuses);
                    for (int k = 0; k < 3; ++k) seen(&statuses[k], room[k], 4);
                }
                for (int k = 0; k < 3; ++k) MPI_Request_free(&requests[k]);
                break;
            case SENDRECV:
                MPI_Sendrecv(&i, 1, MPI_INT, 1 + i % 3, 9, buffer, LONG, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                seen(&status, buffer, 4);
                break;
            case REPLACE:
                buffer[0] = i;
                MPI_Sendrecv_replace(buffer, LONG, MPI_INT, MPI_PROC_NULL, 9, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                seen(&status, buffer, 4);
                break;
            case BY_NAME:
                MPI_Recv(buffer, LONG, MPI_INT, 3 - i / MESSAGES, MPI_ANY_TAG, comm, &status);
                seen(&status, buffer, 4);
                break;
            case TRUNCATED: {
                int error;
                if (i % 3 == 0) {
                    error = MPI_Recv(buffer, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                } else if (i % 3 == 1) {
                    MPI_Irecv(buffer, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
                    error = MPI_Wait(&requests[0], &status);
                } else {
                    MPI_Irecv(buffer, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
                    error = MPI_Waitall(1, requests, statuses);
                    MPI_Error_class(error, &error);
                    if (error == MPI_ERR_IN_STATUS) error = statuses[0].MPI_ERROR;
                    status = statuses[0];
                }
                MPI_Error_class(error, &error);
                learn(error);
                learn(status.MPI_SOURCE);
                learn(status.MPI_TAG);
                break;
            }
            case CANCELLED:
                MPI_Irecv(room[0], LONG, MPI_INT, MPI_ANY_SOURCE, 77, comm, &requests[0]);
                MPI_Irecv(room[1], LONG, MPI_INT, 2, 78, comm, &requests[1]);
                MPI_Recv(buffer, LONG, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
                MPI_Cancel(&requests[0]);
                MPI_Cancel(&requests[1]);
                MPI_Waitall(2, requests, statuses);
                MPI_Test_cancelled(&statuses[0], &flag); /* all else of a cancelled receive's status is undefined */
                learn(flag);
                seen(&status, buffer, 4);
                break;
        }
    if (kind != TRUNCATED) learn(buffer[0]); /* of one that is too long nothing is said */
}

static void trade(MPI_Comm comm, int kind, int late) {
    if (rank == 0) {
        take_all(comm, kind);
        printf("way %d: %016lx\n", kind, sum);
    } else {
        int got;
        if (rank == late) usleep(3000);
        send_all(comm);
        for (int i = 0; kind == SENDRECV && i < MESSAGES; ++i) {
            MPI_Recv(&got, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
            learn(got);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2) {
        flood(atoi(argv[2]));
    } else {
        const char *name = getenv("CAIRN_TEST_LATE");
        const int late = name != NULL ? atoi(name) : 0;
        MPI_Type_vector(2, 1, 2, MPI_INT, &apart);
        MPI_Type_commit(&apart);
        MPI_Comm copy, half, inter;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        /* Rank 0 on one side; its peers are 0 to 2 on the other, so that only ways without names go there. */
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
        for (int kind = 0; kind < KINDS; ++kind) {
            trade(MPI_COMM_WORLD, kind, late);
            trade(copy, kind, late);
            if (kind != BY_NAME && kind != BY_NAME_PERSISTENT && kind != SENDRECV && kind != TRUNCATED) trade(inter, kind, late);
        }
        /* A communicator that goes while another one takes its handle, and what nobody takes. */
        for (int i = 0; i < 3; ++i) {
            MPI_Comm brief;
            MPI_Comm_dup(copy, &brief);
            trade(brief, RECV, late);
            MPI_Comm_free(&brief);
        }
        if (rank == 1) MPI_Send(buffer, 3, MPI_INT, 0, 1234, copy);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Request open;
            MPI_Irecv(buffer, 3, MPI_INT, 1, 1234, copy, &open);
            MPI_Wait(&open, MPI_STATUS_IGNORE);
        }
        MPI_Comm_free(&copy);
        MPI_Comm_free(&half);
        MPI_Comm_free(&inter);
        MPI_Type_free(&apart);
    }
    unsigned long all[4];
    MPI_Gather(&sum, 1, MPI_UNSIGNED_LONG, all, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; ++i) printf("rank %d learned %016lx\n", i, all[i]);
    MPI_Finalize();
    (void)check;
    (void)failures;
    return 0;
}
