// Messages that a replay finds in the MPI's library before their turn.
//
// A recorded run takes the first message that is there; its replay asks for one sender's, and what others
// have sent in the meantime waits in the library. MPICH (over UCX) keeps all that waits in one list, and
// looks through it from its beginning at each receive that names a sender: receiving n messages takes n * n
// steps. So a replay takes them out as they come, by a matched probe for any source and any tag, which is the
// head of that list, and keeps them by communicator, source and tag. Within one of these the order stays,
// which is all that decides which receive gets which message: what is kept is older than what the library
// has. A receive that was posted before its message came gets it from the library: such a message is never
// found by a probe.
//
// Open MPI has a list for each sender, so there is nothing to do; and what its MPI_Intercomm_create sends on
// the peer communicator could be found by such a probe, which would take it away.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

struct Early {
    int source = 0, tag = 0;
    std::uint64_t bytes = 0;
    char* data = nullptr;                    // packed, if `message` is null
    MPI_Message message = MPI_MESSAGE_NULL;  // of a long one, which is still with its sender
    Early* next = nullptr;
};

// The oldest message of this envelope that has been taken out, looking for new ones if it is time to;
// nullptr: the library has it, or will. The caller receives it by one of the functions below.
[[nodiscard]] Early* early(MPI_Comm comm, int source, int tag);
int receive_early(Early* message, void* buffer, int count, MPI_Datatype type, MPI_Comm comm,
                  MPI_Status* status);
// As a request that is complete, or will be when the long message is here. `posted.truncated`: the completion
// is an error that the caller has to raise.
int request_early(Early* message, void* buffer, int count, MPI_Datatype type, MPI_Request* request,
                  Posted& posted);

// MPI_Recv and MPI_Irecv: of a message that was taken out, or by the MPI.
int receive(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
            MPI_Status* status);
int post(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request,
         Posted& posted);

// MPI_Probe and MPI_Mprobe of a source and tag that are known.
int probe(int source, int tag, MPI_Comm comm, MPI_Status* status);
int matched_probe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status);
// What matched_probe gave for it, if the message had been taken out; forgets it.
[[nodiscard]] Early* early_of(MPI_Message* message);

// The program has made or freed a communicator.
void watch_early(MPI_Comm comm);
void forget_early(MPI_Comm comm);

// As the MPI does for a message that is longer than its receive.
int raise_truncated(MPI_Comm comm);

}  // namespace cairn::mpi
