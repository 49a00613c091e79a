// What is wrong with a program, as far as the trace of one run shows it: who waits for whom for ever, which
// message another could have come before, what was never received, completed or freed, calls that don't fit.
#pragma once

#include <string>
#include <vector>

#include "causality/trace.h"

namespace cairn::causality {

enum class Fault {
    deadlock,    // processes that wait for each other, or for one that has ended
    race,        // a receive from anybody that another message could have matched
    collective,  // members of a communicator call different operations, or with different roots
    truncated,   // a message is longer than the receive has room for
    type,        // a message is sent as one type and received as another
    unreceived,  // a message that nobody receives
    request,     // a request that is never completed
    leak,        // a communicator, group, type, operation or persistent request that is never freed
};
inline constexpr unsigned faults = 8;
[[nodiscard]] const char* name(Fault fault);

// Where something is: an event, the call that a process stands in, or a place only.
struct Spot {
    Process process = 0;
    Position event = none;  // none: it is no event
    std::uint32_t place = 0;
    bool operator==(const Spot&) const = default;
};

struct Finding {
    Fault fault = Fault::deadlock;
    std::vector<Spot> spots;  // deadlock: the circle; race: receive, its message's send, the other send
    std::string text;         // for a person, with all spots
    std::uint64_t count = 1;  // how many have the same places; what is said is the first
};

struct Lint {
    Process processes = 0;
    std::uint64_t events = 0;
    std::vector<Finding> findings;
    std::vector<Place> places;
    // What this trace doesn't say, as sentences.
    std::vector<std::string> unknown;
    std::vector<std::string> notes;
};

// Reads all of the trace. Code damaged: it can't be read, or contradicts itself in another way than programs
// do.
[[nodiscard]] Result<Lint> lint(TraceSource& source);

// Opens the trace, prints a line for each finding, or one JSON object. Code refused: there are some.
[[nodiscard]] Result<> lint_and_print(const std::vector<std::string>& paths, bool json);

}  // namespace cairn::causality
