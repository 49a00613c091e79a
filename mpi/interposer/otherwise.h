// The debugger's `what-if from`: at one receive a rank that runs alone is given another message than it got
// in its record, one that it got later, and from there on each message in the order that follows from that.
#pragma once

#include "mpi/interposer/contents.h"

namespace cairn::mpi {

// From now on the last message that a receive was given is kept, for send_heard(). Takes memory of the
// program's heap, so a copy is told so.
void keep_heard();
// A file in memory with it, to be closed; -1: there is none.
[[nodiscard]] int heard_in_file();

// The receive that is event `at` of the trace gets the message in this file (of another copy), which event
// `later` got in the record.
void deliver_otherwise(int file, std::uint64_t at, std::uint64_t later);

// Messages are kept, or one of them is given otherwise: fed_received() leaves them to fed_otherwise().
extern bool feeding_otherwise;
[[nodiscard]] int fed_otherwise(MPI_Comm comm, MPI_Status& status, const Buffer& into,
                                const WantedMessage& asked);

// What the record says of the receive that has just been given another message; else `own`.
[[nodiscard]] MPI_Status as_recorded(const MPI_Status& own);

}  // namespace cairn::mpi
