// What the parts that complete requests share.
#pragma once

#include "mpi/interposer/contents.h"

namespace cairn::mpi {

// What the layer knows of an open request; nullptr if nothing.
[[nodiscard]] Posted* known(MPI_Request request);
[[nodiscard]] Buffer buffer_of(const Posted& posted);
// The request that had this handle is complete. Not `seen`: in another order than recorded.
void completed(std::uint64_t key, const MPI_Status& status, int error, bool seen = true);

}  // namespace cairn::mpi
