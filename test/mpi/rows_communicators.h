/* The rows of rows.c that make communicators: each is used, and freed. */
#pragma once

#include "rows_learn.h"

static void use(MPI_Comm comm) {
    int mine, members, right, left, in;
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &members);
    right = (mine + 1) % members;
    left = (mine + members - 1) % members;
    MPI_Status status;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    MPI_Send(&rank, 1, MPI_INT, right, 3, comm);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == left);
    learn(in);
    MPI_Barrier(comm);
}

static void communicators(MPI_Comm comm) {
    MPI_Comm made, other;
    MPI_Request request;
    MPI_Group group, part;
    MPI_Comm_dup(comm, &made);
    use(made);
    MPI_Comm_free(&made);
    CHECK(made == MPI_COMM_NULL);
    MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made);
    use(made);
    MPI_Comm_disconnect(&made);
    MPI_Comm_idup(comm, &made, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(made);
    MPI_Comm_free(&made);
    MPI_Comm_group(comm, &group);
    MPI_Group_incl(group, 2, (int[]){0, 1}, &part);
    MPI_Comm_create(comm, part, &made);
    use(made);
    if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
    if (rank < 2) {
        MPI_Comm_create_group(comm, part, 5, &made);
        use(made);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&part);
    MPI_Comm_split(comm, rank % 2, -rank, &made);
    use(made);
    /* Both halves talk to each other. */
    MPI_Intercomm_create(made, 0, comm, rank % 2 == 0 ? size - 1 - size % 2 : size - 2 + size % 2, 9, &other);
    int members, far, in = -1;
    MPI_Comm_rank(made, &members);
    MPI_Comm_remote_size(other, &far);
    if (members == 0) {
        MPI_Status status;
        MPI_Request sent;
        MPI_Isend(&rank, 1, MPI_INT, 0, 4, other, &sent);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &status);
        CHECK(status.MPI_SOURCE == 0 && in % 2 != rank % 2);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(other);
    MPI_Comm whole;
    MPI_Intercomm_merge(other, rank % 2, &whole);
    use(whole);
    MPI_Comm_free(&whole);
    MPI_Comm_free(&other);
    MPI_Comm_free(&made);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    use(made);
    MPI_Comm_free(&made);
    MPI_Cart_create(comm, 2, (int[]){size, 1}, (int[]){1, 1}, 0, &made);
    use(made);
    MPI_Cart_sub(made, (int[]){1, 0}, &other);
    use(other);
    MPI_Comm_free(&other);
    MPI_Comm_free(&made);
    int *index = malloc(sizeof(int) * (size_t)size), *edges = malloc(sizeof(int) * (size_t)size);
    for (int i = 0; i < size; ++i) index[i] = i + 1, edges[i] = (i + 1) % size;
    MPI_Graph_create(comm, size, index, edges, 0, &made);
    use(made);
    MPI_Comm_free(&made);
    free(index);
    free(edges);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Dist_graph_create_adjacent(comm, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   0, &made);
    use(made);
    MPI_Comm_free(&made);
    MPI_Dist_graph_create(comm, 1, &rank, (int[]){1}, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
    use(made);
    MPI_Comm_free(&made);
}

/* Information for a communicator: what of it record and replay must heed is in rows.py. */
static void informed(MPI_Comm comm, const char* overtaking) {
    MPI_Info info;
    MPI_Comm made;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", overtaking);
    MPI_Comm_dup_with_info(comm, info, &made);
    CHECK(MPI_Comm_set_info(made, info) == MPI_SUCCESS);
    use(made);
    MPI_Info_free(&info);
    MPI_Comm_free(&made);
}
