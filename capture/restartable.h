// What this machine couldn't restart as it is.
#pragma once

#include <string>
#include <vector>

#include "common/schema/object.h"
#include "common/schema/process.h"

namespace cairn::capture {

// A restart has every open file description of the group at once, above the highest descriptor that any of
// the processes has. Words for a note if that is more than the hard limit of this process allows; else "".
[[nodiscard]] std::string too_many_to_restart(const std::vector<schema::Process>& processes,
                                              const schema::Objects& objects);

}  // namespace cairn::capture
