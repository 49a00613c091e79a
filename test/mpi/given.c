/* What a process is given by others in all the ways that a record of contents must know: types with gaps, freed while in use, elements
 * that are filled in part, MPI_BOTTOM, messages larger than a block of the record, groups, topologies, a collective between two
 * groups. Each rank prints a sum of all that it saw. Three ranks or more. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long sum = 1;

static void learn(const void *data, size_t size) {
    for (size_t i = 0; i < size; ++i) sum = (sum ^ ((const unsigned char *)data)[i]) * 1099511628211ul;
}

static void learn_int(int value) {
    learn(&value, sizeof value);
}

__attribute__((noinline)) void seen(int step) {
    learn_int(step);
}

static void types(int rank, int size) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int grid[40], filled[40];
    for (int i = 0; i < 40; ++i) grid[i] = 100 * rank + i, filled[i] = -i;
    /* Every third int, the type given back while the receive is open. */
    MPI_Datatype third;
    MPI_Type_vector(6, 1, 3, MPI_INT, &third);
    MPI_Type_commit(&third);
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(filled, 2, third, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request);
    MPI_Send(grid, 1, third, right, 1, MPI_COMM_WORLD);
    MPI_Type_free(&third);
    MPI_Wait(&request, &status);
    int count;
    MPI_Get_count(&status, MPI_INT, &count);
    learn_int(count);
    learn(filled, sizeof filled);
    /* Pairs, of which the last comes half. */
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    memset(filled, 7, sizeof filled);
    MPI_Sendrecv(grid, 5, MPI_INT, right, 2, filled, 4, pair, left, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, pair, &count);
    learn_int(count == MPI_UNDEFINED);
    MPI_Get_elements(&status, pair, &count);
    learn_int(count);
    learn(filled, sizeof filled);
    MPI_Type_free(&pair);
    /* By address. */
    double a = 0, b = 0;
    MPI_Aint where[2];
    MPI_Get_address(&a, &where[0]);
    MPI_Get_address(&b, &where[1]);
    MPI_Datatype both;
    MPI_Type_create_hindexed(2, (int[]){1, 1}, where, MPI_DOUBLE, &both);
    MPI_Type_commit(&both);
    const double mine[2] = {rank + 0.5, rank * 2.0};
    MPI_Send(mine, 2, MPI_DOUBLE, right, 3, MPI_COMM_WORLD);
    MPI_Recv(MPI_BOTTOM, 1, both, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    learn(&a, sizeof a);
    learn(&b, sizeof b);
    MPI_Bcast(MPI_BOTTOM, 1, both, 1, MPI_COMM_WORLD);
    learn(&a, sizeof a);
    MPI_Type_free(&both);
    /* Larger than a block of the record. */
    const int most = 700000;
    int *large = malloc(sizeof(int) * (size_t)most);
    for (int i = 0; i < most; ++i) large[i] = rank * most + i % 7919;
    MPI_Sendrecv_replace(large, most, MPI_INT, right, 4, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    learn(large, sizeof(int) * (size_t)most);
    free(large);
}

static void groups(int rank, int size) {
    MPI_Group world, even, odd, all, none;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, (int[1][3]){{0, size - 1, 2}}, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Group_union(even, odd, &all);
    MPI_Group_intersection(even, odd, &none);
    learn_int(none == MPI_GROUP_EMPTY);
    int value, there[3];
    MPI_Group_rank(even, &value);
    learn_int(value == MPI_UNDEFINED ? -1 : value);
    MPI_Group_size(odd, &value);
    learn_int(value);
    MPI_Group_translate_ranks(world, 3, (int[]){0, 1, 2}, all, there);
    learn(there, sizeof there);
    MPI_Group_compare(world, all, &value);
    learn_int(value == MPI_SIMILAR);
    MPI_Group first, rest;
    MPI_Group_incl(world, 1, (int[]){0}, &first);
    MPI_Group_excl(world, 1, (int[]){0}, &rest);
    MPI_Group_size(rest, &value);
    learn_int(value);
    MPI_Group_free(&rest);
    MPI_Group_range_excl(world, 1, (int[1][3]){{0, 1, 1}}, &rest);
    MPI_Group_rank(rest, &value);
    learn_int(value == MPI_UNDEFINED ? -1 : value);
    MPI_Group_free(&rest);
    MPI_Group_free(&first);
    MPI_Comm half, other, members;
    MPI_Comm_create(MPI_COMM_WORLD, even, &members);
    learn_int(members == MPI_COMM_NULL);
    if (members != MPI_COMM_NULL) MPI_Comm_free(&members);
    MPI_Group_free(&world);
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
    MPI_Group_free(&all);
    /* From one half to the other. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0, 5, &other);
    MPI_Comm_test_inter(other, &value);
    learn_int(value);
    MPI_Comm_remote_size(other, &value);
    learn_int(value);
    MPI_Group far;
    MPI_Comm_remote_group(other, &far);
    MPI_Group_size(far, &value);
    learn_int(value);
    MPI_Group_free(&far);
    MPI_Comm_compare(half, MPI_COMM_WORLD, &value);
    learn_int(value == MPI_UNEQUAL);
    int got[16] = {0}, place;
    MPI_Comm_rank(half, &place);
    MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, other);
    learn(got, sizeof got);
    value = rank * 11;
    MPI_Bcast(&value, 1, MPI_INT, rank % 2 == 1 ? 0 : place == 0 ? MPI_ROOT : MPI_PROC_NULL, other);
    learn_int(value);
    memset(got, 0, sizeof got);
    MPI_Gather(&rank, 1, MPI_INT, got, 1, MPI_INT, rank % 2 == 0 ? 0 : place == 0 ? MPI_ROOT : MPI_PROC_NULL, other);
    learn(got, sizeof got);
    MPI_Comm_free(&other);
    MPI_Comm_free(&half);
}

static void topologies(int rank, int size) {
    MPI_Comm ring, graph;
    int coordinates[1], dims[1], periods[1], from, to, kind, count;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 1, &ring);
    MPI_Cart_get(ring, 1, dims, periods, coordinates);
    MPI_Cart_shift(ring, 0, 1, &from, &to);
    MPI_Topo_test(ring, &kind);
    learn_int(dims[0] + periods[0] * 100 + coordinates[0] * 1000);
    learn_int(from * 100 + to);
    learn_int(kind == MPI_CART);
    int place;
    MPI_Cartdim_get(ring, &count);
    MPI_Cart_rank(ring, (int[]){size + 1}, &place);
    MPI_Cart_coords(ring, rank, 1, coordinates);
    learn_int(count + 10 * place + 100 * coordinates[0]);
    MPI_Cart_map(MPI_COMM_WORLD, 1, &size, (int[]){1}, &place);
    learn_int(place);
    int got[2] = {-1, -1};
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, ring);
    learn(got, sizeof got);
    MPI_Comm_free(&ring);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    int in, out, weighted, sources[1], targets[1];
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED);
    learn_int(in + 10 * out + 100 * sources[0] + 1000 * targets[0]);
    MPI_Comm_free(&graph);
    int index[64], edges[64], nodes;
    for (int i = 0; i < size; ++i) index[i] = i + 1, edges[i] = (i + 1) % size;
    MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &place);
    learn_int(place);
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
    MPI_Graphdims_get(graph, &nodes, &count);
    learn_int(nodes + 10 * count);
    MPI_Graph_get(graph, size, size, index, edges);
    learn(edges, sizeof(int) * (size_t)count);
    MPI_Graph_neighbors_count(graph, rank, &count);
    MPI_Graph_neighbors(graph, rank, 1, edges);
    learn_int(count + 10 * edges[0]);
    MPI_Comm_free(&graph);
    /* Several collectives under way, completed in another order. */
    MPI_Request requests[3];
    int sums[3] = {0}, all[64], mine = rank + 3;
    MPI_Iallreduce(&mine, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallreduce(&mine, &sums[1], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[2]);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    learn_int(sums[1]);
    for (count = 0; count < 2; ++count) {
        int which;
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
        learn_int(which);
    }
    learn_int(sums[0]);
    learn(all, sizeof(int) * (size_t)size);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < 2; ++step) {
        types(rank, size);
        groups(rank, size);
        topologies(rank, size);
        seen(step);
    }
    printf("given: rank %d of %d saw %016lx\n", rank, size, sum);
    MPI_Finalize();
    return 0;
}
