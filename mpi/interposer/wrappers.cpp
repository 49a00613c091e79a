// The functions that a program calls: one for each line of table/functions.txt that is followed.
#include "mpi/interposer/handlers.h"

#define WRAPPER extern "C" __attribute__((visibility("default")))

using namespace cairn::mpi;  // of the names in the generated lines

#include "wrappers.inc"

// The only one that is followed and isn't an int.
WRAPPER double MPI_Wtime() {
    if (inside == 0) asked_for_time = true;
    if (!live || inside != 0 || !session->clock) [[likely]]
        return real_wtime();
    return on_Wtime();
}
WRAPPER double PMPI_Wtime() __attribute__((alias("MPI_Wtime")));
