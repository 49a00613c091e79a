// Reaching a session's coordinator, and starting one where none answers.
//
// The static front command links this as well: nothing but the C library and std::string.
#pragma once

#include <string>
#include <vector>

#include "common/session.h"

namespace cairn {

struct Connection {
    int fd = -1;          // connected, close-on-exec; -1: see problem
    std::string problem;  // in words, with what the coordinator's log says
};

// Connects; if nobody answers, starts `cairn-coordinator --daemon --auto` and waits until it answers, 10 s at
// most. Of several that are started at once the first to lock the session stays; the others end by themselves
// and everybody connects to that one.
// `more`: further words of the command line of one that is started.
[[nodiscard]] Connection reach_coordinator(const Session& session, const std::vector<std::string>& more = {});

// As connect_session(), for who needs a coordinator and won't start one: waits for one that is being started,
// and for the end of one that was killed and has its socket still; 10 s at most each.
[[nodiscard]] int find_coordinator(const Session& session);

}  // namespace cairn
