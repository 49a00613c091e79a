/* Several threads of each process that call the MPI at the same time: what each learns is decided by chance, and printed as a sum.
 * threads [WAY,... [ROUNDS]]. Two ranks or more. A replay has to give each thread what it was given, whoever comes first. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <stdio.h>

enum { THREADS = 3, MOST = 64 };

static int rank, size, rounds = 12;
static MPI_Comm comms[THREADS], world;
static unsigned long totals[THREADS];

struct self {
    int number, way;
    unsigned long sum;
    MPI_Comm comm; /* of the threads of this number */
};

static void learn(struct self *self, long value) {
    self->sum = self->sum * 6364136223846793005ul + (unsigned long)value + 1442695040888963407ul;
}

static void seen(struct self *self, const MPI_Status *status, int value) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    learn(self, status->MPI_SOURCE);
    learn(self, status->MPI_TAG);
    learn(self, count);
    learn(self, value);
}

static void compute(int how_long) {
    volatile double x = 1;
    for (int i = 0; i < how_long * 100; ++i) x = x * 1.0000001;
}

/* Rank 0's threads receive rounds * (size - 1) messages each; every thread of the others sends `rounds`. */
static void send_all(struct self *self, MPI_Comm comm, int tag) {
    for (int i = 0; i < rounds; ++i) {
        const int value = 10000 * rank + 100 * self->number + i;
        compute((rank * 7 + self->number * 3 + i) % 5);
        MPI_Send(&value, 1, MPI_INT, 0, tag, comm);
    }
}
static int to_come(void) {
    return rounds * (size - 1);
}

static void recv_any(struct self *self) {
    if (rank != 0) return send_all(self, world, self->number);
    for (int i = 0; i < to_come(); ++i) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
        seen(self, &status, value);
    }
}

static void recv_own_comm(struct self *self) {
    if (rank != 0) return send_all(self, self->comm, self->number);
    for (int i = 0; i < to_come(); ++i) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &status);
        seen(self, &status, value);
    }
}

/* The same envelopes are asked for by all threads. */
static void recv_same_tag(struct self *self) {
    if (rank != 0) return send_all(self, world, 5);
    for (int i = 0; i < to_come(); ++i) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, i % 2 ? 5 : MPI_ANY_TAG, world, &status);
        seen(self, &status, value);
    }
}

static void waiting(struct self *self, int how) {
    if (rank != 0) return send_all(self, world, self->number);
    for (int left = to_come(); left > 0;) {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int values[4], indices[4], count, flag = 1, index;
        const int n = left < 4 ? left : 4;
        for (int i = 0; i < n; ++i) MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &requests[i]);
        for (int got = 0; got < n; got += count) {
            count = 1;
            if (how == 0) {
                MPI_Waitany(n, requests, &index, &statuses[0]);
            } else if (how == 1) {
                MPI_Waitsome(n, requests, &count, indices, statuses);
            } else if (how == 2) {
                for (index = 0; requests[index] == MPI_REQUEST_NULL;) ++index;
                MPI_Test(&requests[index], &flag, &statuses[0]);
            } else if (how == 3) {
                MPI_Testany(n, requests, &index, &flag, &statuses[0]);
            } else if (how == 4) {
                MPI_Testsome(n, requests, &count, indices, statuses);
            } else {
                MPI_Waitall(n, requests, statuses);
                for (int i = 0; i < n; ++i) indices[i] = i;
                count = n;
            }
            if (!flag) count = 0;
            learn(self, count);
            for (int i = 0; i < count; ++i) {
                const int which = how == 1 || how >= 4 ? indices[i] : index;
                seen(self, &statuses[i], values[which]);
            }
        }
        left -= n;
    }
}

static void probe(struct self *self, int how) {
    if (rank != 0) return send_all(self, how == 4 ? self->comm : world, self->number);
    for (int i = 0; i < to_come(); ++i) {
        int value, flag = 0;
        MPI_Status status;
        MPI_Message message;
        MPI_Request request;
        switch (how) {
            case 0: MPI_Probe(MPI_ANY_SOURCE, self->number, world, &status); break;
            case 1:
                while (!flag) {
                    MPI_Iprobe(MPI_ANY_SOURCE, self->number, world, &flag, &status);
                    learn(self, flag);
                }
                break;
            case 2: MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &message, &status); break;
            case 3:
                while (!flag) {
                    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &message, &status);
                    learn(self, flag);
                }
                break;
            default: MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &status); break;
        }
        seen(self, &status, 0);
        if (how == 2) {
            MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
        } else if (how == 3) {
            MPI_Imrecv(&value, 1, MPI_INT, &message, &request);
            MPI_Wait(&request, &status);
        } else {
            MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, how == 4 ? self->comm : world, &status);
        }
        seen(self, &status, value);
    }
}

/* Threads send with one envelope in different ways: their order is what the one receiver learns. */
static void senders(struct self *self) {
    if (rank == 0) {
        if (self->number != 0) return;
        for (int i = 0; i < THREADS * to_come(); ++i) {
            int value;
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, world, &status);
            seen(self, &status, value);
        }
        return;
    }
    for (int i = 0; i < rounds; ++i) {
        const int value = 10000 * rank + 100 * self->number + i;
        MPI_Request request;
        compute((rank + self->number + i) % 7);
        if (self->number == 0) {
            MPI_Send(&value, 1, MPI_INT, 0, 3, world);
        } else if (self->number == 1) {
            MPI_Ssend(&value, 1, MPI_INT, 0, 3, world);
        } else {
            MPI_Isend(&value, 1, MPI_INT, 0, 3, world, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
}

/* One thread starts receives, the others complete them. */
static pthread_mutex_t handing = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;
static MPI_Request lane[THREADS][MOST * 8];
static int lane_values[THREADS][MOST * 8], lane_end[THREADS];

static void hand_over(struct self *self) {
    if (rank != 0) return send_all(self, world, self->number);
    const int each = to_come() * THREADS / (THREADS - 1);
    if (self->number == 0) {
        for (int i = 0; i < to_come() * THREADS; ++i) {
            const int to = 1 + i % (THREADS - 1), at = i / (THREADS - 1);
            MPI_Irecv(&lane_values[to][at], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &lane[to][at]);
            pthread_mutex_lock(&handing);
            lane_end[to] = at + 1;
            pthread_cond_broadcast(&handed);
            pthread_mutex_unlock(&handing);
        }
        return;
    }
    for (int i = 0; i < each; ++i) {
        MPI_Status status;
        pthread_mutex_lock(&handing);
        while (lane_end[self->number] <= i) pthread_cond_wait(&handed, &handing);
        pthread_mutex_unlock(&handing);
        MPI_Wait(&lane[self->number][i], &status);
        seen(self, &status, lane_values[self->number][i]);
    }
}

/* A receive that one thread waits for and another one cancels, while its message is perhaps on its way. */
static MPI_Request wanted;
static pthread_barrier_t posted;
static void cancelled(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        if (rank != 0) {
            const int value = 100 * rank + i;
            if (self->number == 0 && rank == 1) {
                compute(i % 5);
                MPI_Send(&value, 1, MPI_INT, 0, 8, self->comm);
            }
            if (self->number == 0) MPI_Barrier(comms[0]);
            continue;
        }
        static int got;
        if (self->number == 0) MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &wanted);
        pthread_barrier_wait(&posted);
        if (self->number == 1) {
            compute(i % 7);
            MPI_Cancel(&wanted);
        }
        if (self->number == 0) {
            /* The handle is good for the other thread until it has used it. */
            for (int flag = 0; !flag;) {
                MPI_Request_get_status(wanted, &flag, MPI_STATUS_IGNORE);
                learn(self, flag);
            }
        }
        pthread_barrier_wait(&posted);
        if (self->number == 0) {
            MPI_Status status;
            int gone;
            MPI_Wait(&wanted, &status);
            MPI_Test_cancelled(&status, &gone);
            learn(self, gone);
            if (gone) MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &status);
            seen(self, &status, got);
        }
        pthread_barrier_wait(&posted);
        if (self->number == 0) MPI_Barrier(comms[0]);
    }
}

static void collectives(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        int mine = rank + i + self->number, all = 0;
        if (self->number == 2) {
            if (rank != 0) {
                MPI_Send(&mine, 1, MPI_INT, 0, 6, self->comm);
                continue;
            }
            for (int k = 1; k < size; ++k) {
                MPI_Status status;
                MPI_Recv(&all, 1, MPI_INT, MPI_ANY_SOURCE, 6, self->comm, &status);
                seen(self, &status, all);
            }
            continue;
        }
        if (i % 3 == 0) MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, self->comm);
        if (i % 3 == 1) MPI_Bcast(&mine, 1, MPI_INT, i % size, self->comm);
        if (i % 3 == 2) MPI_Barrier(self->comm);
        learn(self, mine + all);
    }
}

static void communicators(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm made;
        if (i % 2)
            MPI_Comm_dup(self->comm, &made);
        else
            MPI_Comm_split(self->comm, 0, rank, &made);
        if (rank != 0) {
            MPI_Send(&i, 1, MPI_INT, 0, i, made);
        } else {
            for (int k = 1; k < size; ++k) {
                MPI_Status status;
                int value;
                MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, made, &status);
                seen(self, &status, value);
            }
        }
        MPI_Comm_free(&made);
    }
}

static void persistent(struct self *self) {
    MPI_Request request;
    int value = 0;
    if (rank != 0) {
        MPI_Send_init(&value, 1, MPI_INT, 0, self->number, world, &request);
        for (int i = 0; i < rounds; ++i) {
            value = 100 * rank + i;
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &request);
        for (int i = 0; i < to_come(); ++i) {
            MPI_Status status;
            MPI_Start(&request);
            MPI_Wait(&request, &status);
            seen(self, &status, value);
        }
    }
    MPI_Request_free(&request);
}

static void sendrecv(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        int mine = 100 * rank + 10 * self->number + i, other;
        MPI_Status status;
        if (i % 2) {
            MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 4, &other, 1, MPI_INT, MPI_ANY_SOURCE, 4, world, &status);
            seen(self, &status, other);
        } else {
            MPI_Sendrecv_replace(&mine, 1, MPI_INT, (rank + 1) % size, 4, MPI_ANY_SOURCE, 4, world, &status);
            seen(self, &status, mine);
        }
    }
}

/* Threads of threads. */
static void *receive_once(void *of) {
    struct self *self = of;
    int value;
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
    seen(self, &status, value);
    return NULL;
}
static void brief(struct self *self) {
    if (rank != 0) return send_all(self, world, self->number);
    for (int i = 0; i < to_come(); i += 2) {
        struct self children[2] = {*self, *self};
        pthread_t threads[2];
        const int n = to_come() - i < 2 ? 1 : 2;
        for (int k = 0; k < n; ++k) pthread_create(&threads[k], NULL, receive_once, &children[k]);
        for (int k = 0; k < n; ++k) {
            pthread_join(threads[k], NULL);
            learn(self, (long)children[k].sum);
        }
    }
}

/* All of some receives, or whether each of them is complete before it is waited for. */
static void looking(struct self *self, int each) {
    if (rank != 0) return send_all(self, world, self->number);
    for (int left = to_come(); left > 0;) {
        MPI_Request requests[3];
        MPI_Status statuses[3];
        int values[3], flag = 0;
        const int n = left < 3 ? left : 3;
        for (int i = 0; i < n; ++i) MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &requests[i]);
        while (!each && !flag) {
            MPI_Testall(n, requests, &flag, statuses);
            learn(self, flag);
        }
        for (int i = n; each && i-- > 0;) {
            for (flag = 0; !flag;) {
                MPI_Request_get_status(requests[i], &flag, &statuses[i]);
                learn(self, flag);
            }
            MPI_Wait(&requests[i], &statuses[i]);
        }
        for (int i = 0; i < n; ++i) seen(self, &statuses[i], values[i]);
        left -= n;
    }
}

/* Two persistent receives at a time, one from anybody and one with any tag. */
static void start_all(struct self *self) {
    if (rank != 0) return send_all(self, world, self->number);
    MPI_Request requests[2];
    int values[2];
    MPI_Recv_init(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, self->number, world, &requests[0]);
    MPI_Recv_init(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &requests[1]);
    for (int i = 0; i < to_come(); i += 2) {
        const int n = to_come() - i < 2 ? 1 : 2;
        MPI_Status statuses[2];
        int indices[2], count;
        MPI_Startall(n, requests);
        if (n == 2) MPI_Send(&i, 1, MPI_INT, 0, i, self->comm);
        for (int got = 0; got < n; got += count) {
            MPI_Waitsome(n, requests, &count, indices, statuses);
            learn(self, count);
            for (int k = 0; k < count; ++k) seen(self, &statuses[k], values[indices[k]]);
        }
    }
    /* What its own messages took the place of. */
    for (int i = 0; i < to_come() / 2; ++i) {
        MPI_Status status;
        int value;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, self->number, world, &status);
        seen(self, &status, value);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Each thread of rank 0 answers whom it hears, and says who came before. */
static void answered(struct self *self) {
    int value = 0, last = -1;
    MPI_Status status;
    if (rank == 0) {
        for (int i = 0; i < to_come(); ++i) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
            seen(self, &status, value);
            const int answer = last;
            last = value;
            MPI_Send(&answer, 1, MPI_INT, status.MPI_SOURCE, 100 + status.MPI_TAG, world);
        }
        return;
    }
    for (int i = 0; i < rounds; ++i) {
        value = 10000 * rank + 100 * self->number + i;
        MPI_Send(&value, 1, MPI_INT, 0, self->number, world);
        MPI_Recv(&value, 1, MPI_INT, 0, 100 + self->number, world, &status);
        seen(self, &status, value);
    }
}

/* Sends and receives of one thread are waited for together, whichever is complete first. */
static void mixed(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        MPI_Request requests[4];
        MPI_Status status;
        int mine[2] = {100 * rank + i, 200 * rank + i}, others[2], index;
        for (int k = 0; k < 2; ++k) {
            MPI_Irecv(&others[k], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &requests[k]);
            MPI_Isend(&mine[k], 1, MPI_INT, (rank + 1 + k) % size, k, self->comm, &requests[2 + k]);
        }
        for (int left = 4; left > 0; --left) {
            MPI_Waitany(4, requests, &index, &status);
            learn(self, index);
            if (index < 2) seen(self, &status, others[index]);
        }
        /* Whoever is ahead would give its next ones to this round's receives. */
        MPI_Barrier(self->comm);
    }
}

/* Collectives that don't wait, on the communicator of each thread: how often they aren't through is chance. */
static void later(struct self *self) {
    for (int i = 0; i < rounds; ++i) {
        MPI_Request request;
        int mine = rank + i, all = 0, flag = 0;
        if (i % 3 == 0) MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, self->comm, &request);
        if (i % 3 == 1) MPI_Ibcast(&mine, 1, MPI_INT, i % size, self->comm, &request);
        if (i % 3 == 2) MPI_Ibarrier(self->comm, &request);
        while (!flag) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            learn(self, flag);
        }
        learn(self, mine + all);
    }
}

/* Messages are sent by one thread and waited for by another. */
static void handed_sends(struct self *self) {
    if (rank == 0) return recv_any(self);
    if (self->number == 2) return send_all(self, world, self->number);
    for (int i = 0; i < 2 * rounds; ++i) {
        if (self->number == 0) {
            lane_values[0][i] = 10000 * rank + i;
            MPI_Isend(&lane_values[0][i], 1, MPI_INT, 0, i % 3, world, &lane[0][i]);
            pthread_mutex_lock(&handing);
            lane_end[0] = i + 1;
            pthread_cond_broadcast(&handed);
            pthread_mutex_unlock(&handing);
            continue;
        }
        int flag = 0;
        pthread_mutex_lock(&handing);
        while (lane_end[0] <= i) pthread_cond_wait(&handed, &handing);
        pthread_mutex_unlock(&handing);
        while (!flag) {
            MPI_Test(&lane[0][i], &flag, MPI_STATUS_IGNORE);
            learn(self, flag);
        }
    }
}

/* From each in turn, whichever of its threads has sent. */
static void any_tag(struct self *self) {
    if (rank != 0) return send_all(self, world, self->number);
    for (int i = 0; i < to_come(); ++i) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, 1 + i % (size - 1), MPI_ANY_TAG, world, &status);
        seen(self, &status, value);
    }
}

static const char *const ways[] = {"recv_any",  "recv_own_comm", "recv_same_tag", "waitany",   "waitsome",      "test",       "testany",
                                   "testsome",  "waitall",       "probe",         "iprobe",    "mprobe",        "improbe",    "probe_own_comm",
                                   "senders",   "hand_over",     "cancelled",     "collectives", "communicators", "persistent", "sendrecv",
                                   "brief",     "testall",       "get_status",    "start_all", "answered",      "mixed",      "later",
                                   "handed_sends", "any_tag"};
enum { WAYS = sizeof ways / sizeof *ways };

static void *run(void *of) {
    struct self *self = of;
    switch (self->way) {
        case 0: recv_any(self); break;
        case 1: recv_own_comm(self); break;
        case 2: recv_same_tag(self); break;
        case 3: case 4: case 5: case 6: case 7: case 8: {
            static const int how[] = {0, 1, 2, 3, 4, 5};
            waiting(self, how[self->way - 3]);
            break;
        }
        case 9: case 10: case 11: case 12: case 13: probe(self, self->way - 9); break;
        case 14: senders(self); break;
        case 15: hand_over(self); break;
        case 16: cancelled(self); break;
        case 17: collectives(self); break;
        case 18: communicators(self); break;
        case 19: persistent(self); break;
        case 20: sendrecv(self); break;
        case 21: brief(self); break;
        case 22: case 23: looking(self, self->way == 23); break;
        case 24: start_all(self); break;
        case 25: answered(self); break;
        case 26: mixed(self); break;
        case 27: later(self); break;
        case 28: handed_sends(self); break;
        case 29: any_tag(self); break;
    }
    return NULL;
}

static int is_asked_for(const char *list, const char *way) {
    const size_t length = strlen(way);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        if (strcspn(at, ",") == length && strncmp(at, way, length) == 0) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "threads: no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    pthread_barrier_init(&posted, NULL, THREADS);
    if (argc > 2) rounds = atoi(argv[2]);
    for (int way = 0; way < WAYS; ++way) {
        if (argc > 1 && !is_asked_for(argv[1], ways[way])) continue;
        struct self selves[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; ++i) {
            selves[i] = (struct self){i, way, 1, comms[i]};
            pthread_create(&threads[i], NULL, run, &selves[i]);
        }
        for (int i = 0; i < THREADS; ++i) {
            pthread_join(threads[i], NULL);
            totals[i] = selves[i].sum;
        }
        memset(lane_end, 0, sizeof lane_end);
        MPI_Barrier(MPI_COMM_WORLD);
        unsigned long all[64 * THREADS];
        MPI_Gather(totals, THREADS, MPI_UNSIGNED_LONG, all, THREADS, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
        for (int i = 0; rank == 0 && i < size * THREADS; ++i)
            printf("%s: rank %d thread %d learned %016lx\n", ways[way], i / THREADS, i % THREADS, all[i]);
        fflush(stdout);
    }
    for (int i = 0; i < THREADS; ++i) MPI_Comm_free(&comms[i]);
    MPI_Comm_free(&world);
    MPI_Finalize();
    return 0;
}
