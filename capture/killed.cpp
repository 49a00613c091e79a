#include "capture/killed.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "capture/report.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

enum class State { stands, moves, ended };

State state_of(const StoppedProcess& process) {
    const auto stat = proc::stat(process.pid, process.living);
    if (!stat || stat->state == 'Z' || stat->state == 'X') return State::ended;
    return stat->state == 't' || stat->state == 'T' ? State::stands : State::moves;
}

}  // namespace

// A system call finds somebody gone (ESRCH) who is still on his way out.
bool is_killed(const StoppedProcess& process) {
    constexpr auto patience = std::chrono::milliseconds(50), nap = std::chrono::milliseconds(1);
    const auto until = Clock::now() + patience;
    State state = state_of(process);
    while (state == State::moves && Clock::now() < until) {
        std::this_thread::sleep_for(nap);
        state = state_of(process);
    }
    return state == State::ended;
}

LookForKilled::~LookForKilled() {
    if (group_ == nullptr) return;
    for (const auto& [pid, process] : group_->processes()) {
        if (!is_killed(process)) continue;
        *killed_ = pid;
        return;
    }
}

Error killed_meanwhile(pid_t pid) {
    return {.what = fmt::format("process {} was killed while it was being saved", pid), .passing = true};
}

}  // namespace cairn::capture
