// A restart can let programs run whose memory is still on its way from the image (docs/decisions/
// 0002-restart-memory.md). What is missing looks like memory that was never touched: such programs aren't
// saved.
#pragma once

#include <string>

#include "capture/report.h"
#include "common/error.h"

namespace cairn::capture {

// Waits until nothing is missing in any program of the session. `path`: Session::pages(); need not exist.
// Errors: ExitCode::timed_out when nothing has come for 30 s; the coordinator has gone.
[[nodiscard]] Result<> await_pages(const std::string& path, Reporter& reporter);

}  // namespace cairn::capture
