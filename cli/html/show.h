// `cairn inspect --html FILE`.
#pragma once

#include <string>

#include "cli/inspect_load.h"
#include "common/error.h"

namespace cairn::inspect {

// Writes the page, with the checkpoint's sisters and the stacks of its threads. Errors: the file can't be
// written, or is there already (ExitCode::refused).
[[nodiscard]] Result<> write_page(const Checkpoint& checkpoint, const std::string& file);

}  // namespace cairn::inspect
