#include "capture/killed.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "capture/report.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

bool has_ended(pid_t pid, pid_t thread) {
    const auto stat = proc::stat(pid, thread);
    return !stat || stat->state == 'Z' || stat->state == 'X';
}

// A system call may find somebody gone (ESRCH) who is still on his way out.
template <class Found>
bool comes_true(const Found& found) {
    constexpr auto patience = std::chrono::milliseconds(50), nap = std::chrono::milliseconds(1);
    for (const auto until = Clock::now() + patience; !found();) {
        if (Clock::now() > until) return false;
        std::this_thread::sleep_for(nap);
    }
    return true;
}

}  // namespace

bool is_killed(const StoppedProcess& process) {
    return comes_true([&] { return has_ended(process.pid, process.living); });
}

void Standing::are(StoppedGroup& group) {
    all_.clear();
    for (const auto& [pid, process] : group.processes()) all_.push_back({pid, process.living});
}

void Standing::blame_the_killed(Error& error) const {
    pid_t killed = 0;
    const auto find_one = [&] {
        for (const auto& [pid, living] : all_)
            if (has_ended(pid, living)) killed = pid;
        return killed != 0;
    };
    if (error.code != ExitCode::failed || all_.empty() || !comes_true(find_one)) return;
    error =
        Error{.what = fmt::format("process {} was killed while it was being saved", killed), .passing = true};
}

}  // namespace cairn::capture
