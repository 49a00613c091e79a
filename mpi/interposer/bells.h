// A bell for each process of a host: who waits for a message sleeps until its sender rings.
//
// MPICH's; Open MPI yields when it is asked to. Where there are more ranks than processors, whoever waits
// must not hold a processor. A run that takes whatever message comes first has somebody who can go on
// whenever a process runs; in a replay it is one certain message that is waited for, from a process that may
// be asleep itself: each nap of either, 50 us and more by the kernel's timer slack, is on the path of
// everybody. So the sender wakes the receiver. What comes without a bell (parts of collectives, the MPI's own
// talk about large messages, other hosts) is found when the sleep ends by itself.
#pragma once

#include "mpi/interposer/mpi_library.h"

namespace cairn::mpi {

// More ranks on this host than processors; before MPI_Init as well.
[[nodiscard]] bool crowded();

// Called by all processes at the same time, behind MPI_Init. Without a word if it can't be: there are no
// bells then.
void hang_bells(int rank, int size);
void bells_forget(MPI_Comm comm);
extern bool bells_there;

void owe_ring(int dest, MPI_Comm comm);
void ring(int dest, MPI_Comm comm);
void owe_nothing();

// Around the call that gives the MPI a message: its receiver is woken behind it, or when that call has to
// wait.
class Ringing {
  public:
    Ringing(int dest, MPI_Comm comm) : dest_(dest), comm_(comm) {
        if (bells_there) [[unlikely]]
            owe_ring(dest, comm);
    }
    // What that call came to: nobody is asked about a communicator that the MPI has refused.
    int done(int result) const {
        if (!bells_there) [[likely]]
            return result;
        owe_nothing();
        if (result == MPI_SUCCESS) ring(dest_, comm_);
        return result;
    }

  private:
    int dest_;
    MPI_Comm comm_;
};

// An event begins. In those that receive, sleep_till_bell sleeps; in others, what is waited for comes without
// a bell.
void await_bell(Fn fn);
extern bool bell_awaited;

// The MPI has looked for messages and found none: sleeps if nobody has rung since the time before. False: no
// bell is to be waited for.
bool sleep_till_bell();

}  // namespace cairn::mpi
