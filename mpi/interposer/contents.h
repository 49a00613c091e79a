// record --contents: what the MPI gave to this process is written down as well (Column::content), in the
// order in which the program was given it. replay --rank: one process runs alone, without the others and
// without mpiexec, and is given the same again.
//
// Alone, the MPI is asked for nothing that needs others. Requests are persistent ones that are never started,
// messages found by a probe are empty ones of the process to itself, communicators are copies of
// MPI_COMM_SELF: handles that are real, each for itself.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

// Where a receive puts what it gets.
struct Buffer {
    void* at = nullptr;
    int count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
};

// Where a collective does: one buffer, or one of each member.
struct Output {
    void* out = nullptr;
    bool each = false, neighbours = false;
    int count = 0;
    const int* counts = nullptr;  // without `each`: of which this process's is meant
    const int* displs = nullptr;  // in extents of `type`, or bytes if there are `types`
    const MPI_Aint* far = nullptr;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const MPI_Datatype* types = nullptr;
};

// Each store_ is for one fed_.
void store_number(std::uint64_t value);
[[nodiscard]] std::uint64_t fed_number();

// A call's error, as its class; fed_result calls the communicator's error handler.
void store_result(int result);
[[nodiscard]] int fed_result(MPI_Comm comm);

void store_status(const MPI_Status& status);
void fed_status(MPI_Status& status);
void clear_status(MPI_Status& status);

// What a receive asks for. `by_itself`: its message is known otherwise, from a matched probe or a look.
struct WantedMessage {
    int source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG;
    bool by_itself = false;
};

// What a receive got, if it went well: error, status, data.
void store_received(int error, const MPI_Status& status, const Buffer& into);
[[nodiscard]] int fed_received(MPI_Comm comm, MPI_Status& status, const Buffer& into,
                               const WantedMessage& asked);

// A probe that found something.
void store_probe(int result, const MPI_Status& status);
[[nodiscard]] int fed_probe(MPI_Comm comm, MPI_Status* status);

void store_collective(const Output& output, causality::Shape shape, MPI_Comm comm, int root);
void fed_collective(const Output& output);
// Non-blocking: at once if the MPI is through, else when the request is completed.
void store_started(const Output& output, causality::Shape shape, MPI_Comm comm, int root,
                   MPI_Request request);
void fed_started(const Output& output, MPI_Request request);
// The request with this handle is complete.
void store_finished(std::uint64_t key);
void fed_finished(std::uint64_t key);

// Receives that were given up while open: looked for at each event.
void store_shadows();
void fed_shadows();

// What the call that this process is in, or stands behind, has brought it: "brought ELEMENTS BYTES HEX TYPE"
// for each message and each part of a collective, with the first bytes. Nothing if it is another call.
[[nodiscard]] std::string brought_lines();

[[nodiscard]] MPI_Request placeholder();
[[nodiscard]] MPI_Message placeholder_message();
// A communicator, and who is in it: alone nobody else can say so.
void store_made(MPI_Comm made);
[[nodiscard]] MPI_Comm fed_made(MPI_Comm parent);
// Of the last one.
[[nodiscard]] const Members& fed_members();

// A type that the program may free while its receive is open.
[[nodiscard]] MPI_Datatype keep(MPI_Datatype type);
void drop(MPI_Datatype& type);

}  // namespace cairn::mpi
