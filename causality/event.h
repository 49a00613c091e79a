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
inline constexpr std::uint32_t unknown_bytes = 0xffffffff;
inline constexpr std::uint32_t most_bytes = 0xfffffffe;  // or more
inline constexpr std::int64_t most_took = INT64_MAX;

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
        // Of a receive, of a probe that found a message, and of a post that `asks`: what it would take.
        any_source = 32,
        any_tag = 64,
        asks = 128,  // post of a receive: peer and tag are what it asks for, not a message that was found
        all = 255,
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
                                     // internal, post: a probe that found a message: its source;
                                     // post that asks: the source asked for, none for any
    std::uint32_t communicator = 0;  // 0: everybody
    std::int32_t tag = 0;
    std::uint32_t request = 0;  // 0: none; a number may be used again once it is closed
    std::uint32_t place = 0;    // in the source; 0: not known
    std::uint64_t message = 0;  // unique among its sender's, from 1; 0: counted
    std::int64_t time = 0;      // ns of the process's own clock
    // Of a send what it sends, of a receive (and its post) what it has room for: bytes, as far as they can be
    // counted, and what they are made of (a number of TraceSource::types; 0: not known).
    std::uint32_t bytes = unknown_bytes;
    std::uint32_t type = 0;
    // How long its call lasted, in ns, 0 to most_took, 0 if that isn't known: of a send or a post from `time`
    // on, of anything else up to `time`.
    std::int64_t took = 0;

    [[nodiscard]] bool timed_at_call() const { return kind == Kind::send || kind == Kind::post; }
    // From when to when its process was in its call, as far as the event knows: ns of its own clock.
    [[nodiscard]] std::int64_t call_begin() const {
        return timed_at_call() ? time : time < INT64_MIN + took ? INT64_MIN : time - took;
    }
    [[nodiscard]] std::int64_t call_end() const {
        return !timed_at_call() ? time : time > INT64_MAX - took ? INT64_MAX : time + took;
    }
    [[nodiscard]] bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
    [[nodiscard]] bool opens() const { return request != 0 && (kind == Kind::send || kind == Kind::post); }
    [[nodiscard]] bool closes() const {
        return request != 0 && (kind == Kind::receive || kind == Kind::collective || kind == Kind::complete);
    }
    // Whether an event of its kind may say how much and what.
    [[nodiscard]] bool sized() const {
        return kind == Kind::send || kind == Kind::receive ||
               (kind == Kind::post && !has(Flag::for_collective));
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
    std::uint32_t line = 0;  // 0: not known
    std::string function;
    std::string call;  // what is called there, such as "MPI_Recv"
    auto operator<=>(const Place&) const = default;
};

// The call that a process was in when its trace ends: it hasn't returned. What it waits for is in `event`: a
// receive's source (none: any) and tag, a send's destination, a collective's communicator, shape and root; of
// a call that waits for requests (kind complete) they are in `requests`. Kind internal: that isn't known.
struct Standing {
    Event event;
    std::vector<std::uint32_t> requests;
    bool any = false;  // one of the requests is enough
    bool operator==(const Standing&) const = default;
};

// What a process made and had not freed when it ended.
enum class Leaked : std::uint8_t { communicator = 0, group = 1, type = 2, operation = 3, request = 4 };
inline constexpr unsigned leaked_kinds = 5;
struct Leak {
    Process process = 0;
    Leaked what = Leaked::communicator;
    std::uint32_t place = 0;  // where it was made
    std::uint64_t count = 1;
    bool operator==(const Leak&) const = default;
};

struct Communicator {
    std::uint32_t id = 0;
    std::vector<Process> members;  // ascending
    bool operator==(const Communicator&) const = default;
};

[[nodiscard]] const char* name(Kind kind);
[[nodiscard]] const char* name(Shape shape);
[[nodiscard]] const char* name(Leaked what);
// "MPI_Recv at solver.c:88 (relax)"; "" for one that isn't known.
[[nodiscard]] std::string describe(const Place& place);
// "receive from 3, tag 7": without process and position.
[[nodiscard]] std::string describe(const Event& event);

}  // namespace cairn::causality
