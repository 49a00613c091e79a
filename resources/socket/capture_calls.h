// Whom members speak to that are on no descriptor of this host, and where they can be called: matched with
// other hosts' when all stand still (resources/tcp/capture_links.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resources/capture/table.h"

namespace cairn::capture {

// Addresses are "tcp", "udp" or "udplite" and a plain address.
struct OutgoingCall {
    std::string to;
    std::int64_t object = -1;  // a TCP socket that is being connected; -1: nothing to be done for it
    std::string what, fate;    // if nobody is found: for Table::external()
};

struct ReachableAt {
    std::string at;
    std::int64_t object = -1;  // a TCP socket that listens
};

struct CallsFound {
    std::vector<OutgoingCall> calls;
    std::vector<ReachableAt> reached;
};

}  // namespace cairn::capture
