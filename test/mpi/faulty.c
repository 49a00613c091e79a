/* One fault of each kind that `cairn mpi lint` finds, by name; "clean" does the same things right. The lines with a fault
   end with a comment that says FAULT. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* What hangs is killed by who has started it, who needs the process ids; or by itself in the end. */
static void hangs(void) {
    char name[32];
    snprintf(name, sizeof name, "pid.%d", rank);
    FILE* file = fopen(name, "w");
    if (file != NULL) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    alarm(60);
}

static void circle(void) {
    int got = 0, next = (rank + 1) % size, before = (rank + size - 1) % size;
    hangs();
    MPI_Recv(&got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* FAULT */
    MPI_Send(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
}

static void circle_ssend(void) {
    int got = 0, other = rank ^ 1;
    hangs();
    if (other >= size) return;
    MPI_Ssend(&rank, 1, MPI_INT, other, 5, MPI_COMM_WORLD); /* FAULT */
    MPI_Recv(&got, 1, MPI_INT, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 waits for a request, the others for rank 0 in a barrier. */
static void circle_wait(void) {
    int got = 0;
    MPI_Request request;
    hangs();
    if (rank == 0) {
        MPI_Irecv(&got, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE); /* FAULT */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
}

static void wrong_tag(void) {
    int got = 0;
    hangs();
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&got, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* FAULT */
}

static void race(void) {
    int got = 0;
    for (int i = 1; rank == 0 && i < size; ++i)
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* FAULT */
    if (rank != 0) MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
}

static void race_irecv(void) {
    int got[64];
    MPI_Request requests[64];
    for (int i = 1; rank == 0 && i < size; ++i)
        MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i - 1]); /* FAULT */
    if (rank == 0) MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
    if (rank != 0) MPI_Send(&rank, 1, MPI_INT, 0, rank, MPI_COMM_WORLD);
}

static void race_probe(void) {
    int got = 0;
    MPI_Status status;
    for (int i = 1; rank == 0 && i < size; ++i) {
        MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status); /* FAULT */
        MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank != 0) MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
}

static void request(void) {
    static int got;
    MPI_Request request;
    if (rank == 1) MPI_Irecv(&got, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &request); /* FAULT */
    if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void isend_request(void) {
    int got = 0;
    MPI_Request request;
    if (rank == 0) MPI_Isend(&rank, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &request); /* FAULT */
    if (rank == 1) MPI_Recv(&got, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void persistent(void) {
    int got = 0;
    MPI_Request request;
    if (rank == 1) {
        MPI_Recv_init(&got, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &request); /* FAULT */
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
}

static void communicator(void) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy); /* FAULT */
    MPI_Barrier(copy);
}

static void group(void) {
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all); /* FAULT */
}

static void type(void) {
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair); /* FAULT */
    MPI_Type_commit(&pair);
}

static void sum(void* in, void* inout, int* length, MPI_Datatype* kind) {
    (void)kind;
    for (int i = 0; i < *length; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

static void operation(void) {
    MPI_Op op;
    MPI_Op_create(sum, 1, &op); /* FAULT */
}

static void collective(void) {
    int value = 0;
    hangs();
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD); /* FAULT */
    else
        MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD);
}

static void root(void) {
    int value = 0;
    hangs();
    MPI_Bcast(&value, 1, MPI_INT, rank == 0 ? 0 : 1, MPI_COMM_WORLD); /* FAULT */
}

static void unreceived(void) {
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 8, MPI_COMM_WORLD); /* FAULT */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void truncated(void) {
    int values[4] = {0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) MPI_Send(values, 4, MPI_INT, 1, 6, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(values, 2, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* FAULT */
}

static void other_type(void) {
    int values[4] = {0};
    if (rank == 0) MPI_Send(values, 4, MPI_INT, 1, 6, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(values, 4, MPI_FLOAT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* FAULT */
}

/* Any source, but nobody else can have sent yet; types that are equal though made differently; everything freed. */
static void clean(void) {
    int values[8] = {0}, got = 0, flag = 0;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Datatype pair, strided, copy;
    MPI_Group all, some;
    MPI_Comm half, other;
    MPI_Op op;
    for (int i = 1; i < size; ++i) {
        if (rank == 0) MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == i) MPI_Send(&rank, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_vector(2, 1, 2, MPI_INT, &strided);
    MPI_Type_dup(strided, &copy);
    MPI_Type_commit(&pair);
    MPI_Type_commit(&copy);
    MPI_Type_free(&strided);
    if (rank == 0) MPI_Send(values, 2, pair, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(values, 2, copy, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(values, 4, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(values, 3, pair, 0, 0, MPI_COMM_WORLD, &status);
    MPI_Type_free(&pair);
    MPI_Type_free(&copy);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(MPI_COMM_WORLD, &some);
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(half, &other);
    MPI_Op_create(sum, 1, &op);
    MPI_Allreduce(&rank, &got, 1, MPI_INT, op, other);
    MPI_Op_free(&op);
    MPI_Comm_free(&half);
    MPI_Comm_free(&other);
    if (rank == 0) MPI_Send_init(values, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[0]);
    if (rank == 1) MPI_Recv_init(values, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; rank < 2 && i < 3; ++i) {
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    if (rank < 2) MPI_Request_free(&requests[0]);
    if (rank == 0) {
        MPI_Isend(values, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Request_free(&requests[0]);
    }
    if (rank == 1) {
        MPI_Irecv(values, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(values, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, &requests[1]);
        MPI_Cancel(&requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        void (*run)(void);
    } all[] = {{"circle", circle},
               {"circle_ssend", circle_ssend},
               {"circle_wait", circle_wait},
               {"wrong_tag", wrong_tag},
               {"race", race},
               {"race_irecv", race_irecv},
               {"race_probe", race_probe},
               {"request", request},
               {"isend_request", isend_request},
               {"persistent", persistent},
               {"communicator", communicator},
               {"group", group},
               {"type", type},
               {"operation", operation},
               {"collective", collective},
               {"root", root},
               {"unreceived", unreceived},
               {"truncated", truncated},
               {"other_type", other_type},
               {"clean", clean}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int found = 0;
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (argc > 1 && strcmp(all[i].name, argv[1]) == 0) {
            found = 1;
            all[i].run();
        }
    if (!found) fprintf(stderr, "faulty: which fault?\n");
    MPI_Finalize();
    return !found;
}
