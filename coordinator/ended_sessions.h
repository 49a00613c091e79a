// Folders of sessions that are over.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/session.h"

namespace cairn::coordinator {

// Removes from the folder of sessions those whose coordinator has ended in good order with nobody left, and
// whose log is older than `age`: for so long it can be read what became of their checkpoints. A folder that
// still has a region, a socket or a state is one that a coordinator has left by a crash, or with programs
// that go on: it stays, for the next coordinator finds them by it (docs/decisions/0013-session-folder.md). So
// does one that has anything in it that isn't cairn's, and `own`. Returns the names of those that are gone.
std::vector<std::string> remove_ended_sessions(const Session& own, std::chrono::seconds age);

}  // namespace cairn::coordinator
