// What this machine couldn't restart as it is.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"

namespace cairn::capture {

// Words for a note if a restart would need more descriptors than the hard limit of this process allows; else
// "". An error (ExitCode::refused) if one of the processes has so many as can't be had again under it.
[[nodiscard]] Result<std::string> too_many_to_restart(const std::vector<schema::Process>& processes,
                                                      const schema::Objects& objects);

}  // namespace cairn::capture
