// The exit codes of common/error.h for the static front, which doesn't link fmt.
#pragma once

namespace cairn::cli {

enum Exit : int {
    exit_ok = 0,
    exit_failed = 1,
    exit_usage = 2,
    exit_refused = 3,
    exit_no_coordinator = 5,
    exit_timed_out = 6,
    exit_not_executable = 126,  // as shells do (POSIX, XCU 2.8.2)
    exit_not_found = 127,
};

}  // namespace cairn::cli
