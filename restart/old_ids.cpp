#include "restart/old_ids.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/proc.h"

namespace cairn::restart {

std::set<pid_t> ids_of(std::span<const schema::Process> processes, std::span<const pid_t> others) {
    std::set<pid_t> ids(others.begin(), others.end());
    for (const schema::Process& process : processes) {
        ids.insert(process.pid);
        for (const auto& thread : process.threads) ids.insert(thread.tid);
    }
    return ids;
}

bool old_ids_free(std::span<const schema::Process> processes, std::span<const pid_t> others,
                  std::chrono::seconds patience) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + patience;
    const std::set<pid_t> ids = ids_of(processes, others);
    const auto taken = [&](pid_t id) {
        for (;;) {
            const auto stat = proc::stat(id);
            if (!stat) return ::access(fmt::format("/proc/{}", id).c_str(), F_OK) == 0;
            if (stat->state != 'Z' || Clock::now() > deadline) return true;
            ::usleep(10'000);
        }
    };
    if (std::ranges::any_of(ids, taken)) return false;
    const auto leads_others = [&] {
        return std::ranges::any_of(proc::processes(), [&](pid_t pid) {
            const auto stat = proc::stat(pid);
            return stat && (ids.contains(stat->pgrp) || ids.contains(stat->session));
        });
    };
    while (leads_others()) {
        if (Clock::now() > deadline) return false;
        ::usleep(10'000);
    }
    return true;
}

}  // namespace cairn::restart
