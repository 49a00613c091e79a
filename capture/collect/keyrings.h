// Keyrings (keyrings(7)) can't be saved: what they hold may be read by the kernel alone. They are noted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/group.h"
#include "common/agent.h"

namespace cairn::capture {

// A note for each keyring of the process's own that has keys in it: of a thread, of the process, of a session
// that isn't the coordinator's.
void note_keyrings(const StoppedProcess& process, const AgentProcess& answers,
                   const std::vector<AgentThread>& threads, const std::function<void(std::string)>& note);

}  // namespace cairn::capture
