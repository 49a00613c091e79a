// TCP connections between parts that nobody has accepted yet: they are made anew when the listeners of all
// parts listen again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "resources/tcp/restore_links.h"

namespace cairn::restart {

// One that a listener of this part will find in its queue.
struct AwaitedCall {
    std::int64_t number = -1;
    Address listener;  // where it listens now
};
// One that a socket of this part makes.
struct PendingCall {
    std::int64_t number = -1;
    int fd = -1;  // borrowed, not blocking
    int domain = 0;
    Address listener;         // as the program knows it
    bool established = true;  // it was; else it was still being connected, and goes on doing so
    std::string problem;      // found out: why there is no such connection; "": it is made, or being made
};

// Waits until the listeners of the other parts are there, and calls them.
[[nodiscard]] Result<> call_listeners(const std::vector<AwaitedCall>& awaited,
                                      std::vector<PendingCall>& calls, const MeetLinks& meet);

}  // namespace cairn::restart
