// What the session of a service says of its programs.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "common/error.h"

namespace cairn::service {

struct SessionState {
    std::string state;  // empty, running, restarting, ...: of `cairn status`
    std::int64_t processes = 0;
};

[[nodiscard]] Result<SessionState> session_state(const std::string& session);

// Those that run and are members, by the kernel's ids.
[[nodiscard]] Result<std::set<pid_t>> members_of(const std::string& session);

// Whether a coordinator answers.
[[nodiscard]] bool is_served(const std::string& session);

// Ends what an earlier run of the service has left, if it was killed and its programs weren't: they are saved
// first. Has a coordinator in `folder` for that. Nothing is done where nobody has been in the session.
[[nodiscard]] Result<> end_leftovers(const std::string& session, const std::string& folder);

// Ends the programs without a checkpoint, and waits for that.
[[nodiscard]] Result<> end_programs(const std::string& session);

}  // namespace cairn::service
