// The functions that a program calls: one for each line of table/functions.txt that is followed.
#include "mpi/interposer/handlers.h"

#define WRAPPER extern "C" __attribute__((visibility("default")))

using namespace cairn::mpi;  // of the names in the generated lines

#include "wrappers.inc"
