/* What the parts of rows.c share: what was learned is folded into a sum, what is wrong is said and counted.
 */
#pragma once

#include <mpi.h>
#include <stdio.h>

static int rank, size;
static unsigned long sum = 1;
static int failures;

static void learn(long value) {
    sum = sum * 6364136223846793005ul + (unsigned long)value + 1442695040888963407ul;
}

static void check(int good, const char* what) {
    if (good) return;
    fprintf(stderr, "rows: rank %d: %s\n", rank, what);
    ++failures;
}
#define CHECK(condition) check(condition, #condition)

static void learn_status(const MPI_Status* status) {
    int count, cancelled, elements;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Get_elements(status, MPI_INT, &elements);
    MPI_Test_cancelled(status, &cancelled);
    learn(status->MPI_SOURCE);
    learn(status->MPI_TAG);
    learn(count);
    learn(elements);
    learn(cancelled);
}
