// Several threads of a process that call the MPI (MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE).
//
// Which thread's call came first is one more thing that could have come out otherwise. So the process's calls
// are taken apart into steps, of which only one is made at a time, under a lock: a call that doesn't wait is
// one step; a call that waits is a step that posts what it waits for, and another one with which it returns.
// The record has which thread made each step (Column::turn), and in a replay each thread waits for its turn.
// All that the layer keeps is then written and read in one order, and receives and sends of one envelope are
// posted in one order.
//
// In the record nobody waits in the MPI with the lock held: what waits is tried, again and again, and the
// lock is given away in between. So that a probe and the step that says what it found are one, and a handle
// isn't given to somebody else before its completion has been seen. A replay waits in the MPI within the
// step, whose turn only comes when everything has happened that it needs. Collectives wait in the MPI without
// the lock in both: they may need what other threads do meanwhile.
//
// A thread is known by its birth: the how-manyth thread that its parent made. What decides by itself which
// thread comes first (locks of the program's) is not recorded.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

inline bool threaded() {
    return session->threaded;
}

// Ends this step; waits for this thread's next turn.
void next_step();

// The lock is given away while the collective `run` waits in the MPI; its return is a step.
void leave_for_others();
void come_back();
template <class F>
auto outside(const F& run) {
    if (!threaded()) return run();
    leave_for_others();
    const auto result = run();
    come_back();
    return result;
}

// Until `done` says so: within one step, its own.
void try_later();
void keep_trying();
template <class F>
void wait_until(const F& done) {
    if (session->job == Job::replay) {
        next_step();
        while (!done()) keep_trying();
        return;
    }
    while (!done()) try_later();
    next_step();
}

// The MPI is through with it, well or not: MPI_Wait would return at once.
[[nodiscard]] bool is_through(MPI_Request request);
// Completes it; an error is one of this communicator's, as it is of the blocking call.
int wait_at(MPI_Comm comm, MPI_Request* request, MPI_Status* status);
// Completes a request in the next step.
int wait_for(MPI_Request* request, MPI_Status* status);

}  // namespace cairn::mpi
