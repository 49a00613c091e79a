// A causal breakpoint: every process stops at the earliest state that is consistent with one event of one
// process. Where that is, `cairn mpi break` has found in a trace of the same record; here each process goes
// as far as it says, and no farther. `cairn mpi continue` tells all of them the next such state.
//
// A process must get there although others already stand still. Sends are the problem: one that waits for its
// receiver would wait for ever. So each is copied and started, and the program goes on at once, as if the MPI
// had buffered it.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

// Takes CAIRN_MPI_STOP, one item for each rank: N, N+ (see Session::enter) or N~ (Session::late).
void read_stop(const std::string& stops);

// For as long as it lives this process is in a call that is no event, in which it may wait for others.
class InNoEvent {
  public:
    explicit InNoEvent(Fn fn);
    ~InNoEvent();
    InNoEvent(const InNoEvent&) = delete;
    InNoEvent& operator=(const InNoEvent&) = delete;
};

// Sends that were copied: completed before MPI_Finalize, if their receivers take them.
void finish_sends();

// A line "frame PLACE" for each function of the program that is being executed, innermost first.
[[nodiscard]] std::string stack_of_program();

int send_aside(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
// A request that is complete.
int finished_request(MPI_Request* request);

}  // namespace cairn::mpi
