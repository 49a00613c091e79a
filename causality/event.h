// What happens in a computation of processes that exchange messages, as far as causality is concerned.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::causality {

using Process = std::uint32_t;   // 0 .. n-1, over all communicators: an MPI job's rank in its world
using Position = std::uint32_t;  // place of an event in its process, from 0

inline constexpr std::uint32_t none = 0xffffffff;
inline constexpr Process most_processes = 1U << 20;

enum class Kind : std::uint8_t {
    internal = 0,    // seen by nobody else; with Flag::nondeterministic for instance a Test that answers no
    send = 1,        // the call of any send; with a request it opens it
    receive = 2,     // the return of a receive, or of the call that completes it; with a request it closes it
    collective = 3,  // one process's part in a collective operation; with a request it closes it
    checkpoint = 4,
    breakpoint = 5,
    post = 6,  // Irecv, Start, Mprobe, the call of a non-blocking collective: opens a request
    complete =
        7,  // closes a request that brings nothing: an Isend's Wait, a buffer that is drained, a cancel
};
inline constexpr unsigned kinds = 8;

// Who must have entered a collective operation before whom it may return to.
enum class Shape : std::uint8_t {
    alone = 0,      // no collective
    all = 1,        // Barrier, Allreduce, Alltoall: everybody before anybody
    from_root = 2,  // Bcast, Scatter: the root before each other
    to_root = 3,    // Reduce, Gather: each other before the root
};
inline constexpr unsigned shapes = 4;

struct Flag {
    enum : std::uint8_t {
        nondeterministic = 1,  // another run may have another event here (wildcards, tests)
        joined = 2,            // belongs to the same call as the event before it (Waitall, Sendrecv)
        forced = 4,            // a checkpoint that a protocol asked for
        cancelled = 8,         // complete: the posted receive will never match
        for_collective = 16,   // post: of a collective operation; otherwise of a receive
        all = 31,
    };
};

// Messages are told apart by the number that their sender gave them, where it travels with the message
// (`message`), or by counting: the k-th send of a channel (communicator, source, destination, tag) is the
// k-th receive of it, in the order of posting (MPI 4.0, 3.5: messages don't overtake).
struct Event {
    Kind kind = Kind::internal;
    Shape shape = Shape::alone;
    std::uint8_t flags = 0;
    Process peer = none;             // send: destination; receive: source; rooted collective: the root;
                                     // internal, post: a probe that found a message: its source
    std::uint32_t communicator = 0;  // 0: everybody
    std::int32_t tag = 0;
    std::uint32_t request = 0;  // 0: none; a number may be used again once it is closed
    std::uint32_t place = 0;    // in the source; 0: not known
    std::uint64_t message = 0;  // unique among its sender's, from 1; 0: counted
    std::int64_t time = 0;      // ns of the process's own clock

    [[nodiscard]] bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
    [[nodiscard]] bool opens() const { return request != 0 && (kind == Kind::send || kind == Kind::post); }
    [[nodiscard]] bool closes() const {
        return request != 0 && (kind == Kind::receive || kind == Kind::collective || kind == Kind::complete);
    }
    bool operator==(const Event&) const = default;
};

struct EventId {
    Process process = none;
    Position position = none;
    auto operator<=>(const EventId&) const = default;
};

struct Place {
    std::string file;
    std::uint32_t line = 0;
    std::string function;
    std::string call;  // what is called there, such as "MPI_Recv"
    auto operator<=>(const Place&) const = default;
};

struct Communicator {
    std::uint32_t id = 0;
    std::vector<Process> members;  // ascending
    bool operator==(const Communicator&) const = default;
};

[[nodiscard]] const char* name(Kind kind);
[[nodiscard]] const char* name(Shape shape);
// "MPI_Recv at solver.c:88 (relax)"; "" for one that isn't known.
[[nodiscard]] std::string describe(const Place& place);
// "receive from 3, tag 7": without process and position.
[[nodiscard]] std::string describe(const Event& event);

}  // namespace cairn::causality
