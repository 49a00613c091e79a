// What `cairn mpi debug` and the interposer of a rank that runs under it say to each other, over one
// SEQPACKET socket for each process of the rank: the one that runs, and each that stands still as a
// checkpoint. A process that stands reads commands; one that runs reads nothing, and only reports.
#pragma once

#include <cstdint>

namespace cairn::mpi::debug {

// In the environment of a rank: the number of its socket's descriptor.
inline constexpr const char* socket_variable = "CAIRN_MPI_DEBUG";

enum class Ask : std::uint32_t {
    run,        // to `position`, and stand there
    fork,       // a copy that stands where this process stands: Says::forked, with the copy's socket
    stack,      // Says::stack; uses memory of the process, so a copy is asked
    image,      // a copy that lets go of the debugger and sleeps, to be captured: Says::forked, with a socket
                // that ends when it sleeps
    keep,       // the last message that was received, from now on; takes memory, so a copy is asked
    message,    // Says::message
    otherwise,  // the receive that is event `position` gets the message that comes along as a descriptor,
                // which event `last` got
    note,       // from now on, which requests are completed, and the message of the one with the trace's
                // number `last`; takes memory, so a copy is asked
    noted,      // Says::message, with what was noted
    offered,    // of a call for any of several requests, within which it stands: Says::offered
    first,      // in call `position` the request with number `last` is complete first, as noted in the file
                // that comes along
};

struct Command {
    Ask ask = Ask::run;
    // Not behind the call of the last event, but in the call of the next one, before it happens: that is the
    // same call, or a collective that others have left.
    std::uint32_t within = 0;
    std::uint64_t position = 0;
    std::uint64_t interval_ns = 0;  // take a checkpoint whenever this much time has passed; 0: never
    std::uint64_t elapsed_ns = 0;   // of it already
    std::uint64_t every = 0;        // and whenever so many calls are behind the last; 0: by time only
    std::uint64_t last = 0;         // the call behind which the last one is
    std::uint64_t name[2] = {};     // image: of the socket at which it is waited for when it is brought back
};

enum class Says : std::uint32_t {
    stands,      // and reads commands
    forked,      // answers Ask::fork; one descriptor comes along
    checkpoint,  // while it runs; one descriptor comes along, and it waits to be told to run on
    stack,  // `text`: what the call has brought (brought_lines()), and a line for each frame, innermost first
    offered,  // `text`: offered_lines()
    message,  // a descriptor comes along, of a file with the message; none if there is no message
};

enum class Why : std::uint32_t {
    there,     // where it was to stand
    end,       // the program has called MPI_Finalize; there is nothing behind
    cut,       // the record ends here, in a call that hasn't returned
    departed,  // from the record; or it can't go on alone
};

struct Report {
    Says says = Says::stands;
    Why why = Why::there;
    std::int32_t pid = 0;          // stands: of this process; else of the copy
    std::uint32_t within = 0;      // it is in a call
    std::uint64_t position = 0;    // events of the trace
    std::uint64_t event = 0;       // calls
    std::uint64_t frame = 0;       // stands: address of the called wrapper's frame; the program's are above
    std::uint64_t fork_ns = 0;     // forked, checkpoint: processor time of the fork
    std::uint32_t text_bytes = 0;  // behind this
    std::uint32_t other_threads = 0;  // stands: threads that a copy would not have
};

inline constexpr unsigned most_text = 32U << 10;

}  // namespace cairn::mpi::debug
