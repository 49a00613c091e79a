#include "restart/pages/identity.h"

#include <unistd.h>

#include <cerrno>

#include "common/proc.h"

namespace cairn::restart::pages {
namespace {

constexpr int time_bits = 40;  // ticks of 10 ms: 348 years. Pids have 22 bits (PID_MAX_LIMIT of Linux)

Identity make_identity(pid_t pid, std::uint64_t start_time) {
    return static_cast<Identity>(pid) << time_bits | (start_time & ((Identity(1) << time_bits) - 1));
}

}  // namespace

Identity own_identity() {
    const pid_t pid = ::getpid();
    for (;;) {
        if (const auto stat = proc::stat(pid)) return make_identity(pid, stat->start_time);
        ::usleep(1'000);
    }
}

bool lives(Identity who) {
    if (who == 0) return false;
    const auto pid = static_cast<pid_t>(who >> time_bits);
    const auto stat = proc::stat(pid);
    if (!stat) return stat.error().number != ENOENT && stat.error().number != ESRCH;
    return stat->state != 'Z' && stat->state != 'X' && make_identity(pid, stat->start_time) == who;
}

}  // namespace cairn::restart::pages
