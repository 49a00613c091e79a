// `cairn mpi check-places`: whether nothing is in transit and nobody waits where the program passes a line of
// its source.
//
// At each pass all processes of the job wait for each other on a communicator of their own, and compare how
// many messages each has sent to each other with how many have been received. A process that doesn't come is
// told where it stands by its file DIR/at.N, a shared mapping.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

// Takes CAIRN_MPI_PLACE: "before" or "behind", a blank, FILE:LINE or FUNCTION; in seconds, how long one waits
// for the others, behind another blank.
void start_check(const std::string& what);
// Before and behind each call.
void check_before(const Call& call);
void check_behind();
// In MPI_Finalize: what came of it. Exit code 3 if it is no place.
void end_check();

}  // namespace cairn::mpi
