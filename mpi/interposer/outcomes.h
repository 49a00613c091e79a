// What may come out one way or another: written down, or looked up.
#pragma once

#include "mpi/interposer/session.h"

namespace cairn::mpi {

inline bool recording() {
    return session->job == Job::record;
}
inline bool replaying() {
    return session->job == Job::replay;
}

// What comes out is written down: of a run that is recorded, and of a replay that may be left, to go on
// freely (breakpoint.h).
inline bool writing() {
    return session->writer != nullptr;
}

inline void write_answer(bool yes) {
    if (!writing()) return;
    if (yes)
        session->writer->yes();
    else
        session->writer->no();
}

// A test or probe said yes or no.
inline void record_answer(bool yes) {
    write_answer(yes);
    ++session->said;
    came_to(yes ? 2 : 1);
}

// What it said in the record.
[[nodiscard]] bool recorded_answer();

// A number that could have been another (Column::index).
inline void record_number(std::int64_t value) {
    if (writing()) session->writer->put(Column::index, zigzag(value));
    ++session->said;
    came_to(static_cast<std::uint64_t>(value) + 3);
}
[[nodiscard]] std::int64_t recorded_number();

// Where and with which tag a probe found its message.
struct Envelope {
    int source = 0, tag = 0;
};
void record_probe(int source, int tag, const Envelope& found);
[[nodiscard]] Envelope recorded_probe(int source, int tag);

// A receive is posted: in `into` what the layer must know of it. In replay `into.source` and `into.tag` are
// what to ask the MPI for; `into.dead`: it never gets a message.
void post_receive(Posted& into, int source, int tag);
// It is complete. `status` is the MPI's. Not `seen`: the program doesn't see that it is.
void complete_receive(const Posted& posted, const MPI_Status& status, bool seen = true);
// The MPI refused it.
void failed_receive(const Posted& posted);

// A receive that gets nothing.
int post_dead(void* buf, int count, MPI_Datatype type, MPI_Request* request);

}  // namespace cairn::mpi
