#include "restart/old_ids.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/proc.h"

namespace cairn::restart {

std::set<KernelId> ids_of(std::span<const schema::Process> processes, std::span<const ProgramId> others) {
    std::set<KernelId> ids;
    for (const ProgramId other : others) ids.insert(kernel_id_of_same_number(other));
    for (const schema::Process& process : processes) {
        ids.insert(kernel_id_of_same_number(process.pid));
        for (const auto& thread : process.threads) ids.insert(kernel_id_of_same_number(thread.tid));
    }
    return ids;
}

std::vector<ProgramId> leaders_of(std::span<const schema::Process> processes) {
    std::vector<ProgramId> leaders;
    for (const schema::Process& process : processes) {
        if (!process.session_led_outside && process.sid.known()) leaders.push_back(process.sid);
        if (!process.group_led_outside && process.pgid.known()) leaders.push_back(process.pgid);
    }
    return leaders;
}

bool old_ids_free(std::span<const schema::Process> processes, std::span<const ProgramId> others,
                  std::chrono::seconds patience) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + patience;
    const std::set<KernelId> ids = ids_of(processes, others);
    const auto taken = [&](KernelId id) {
        for (;;) {
            const auto stat = proc::stat(id.number());
            if (!stat) return ::access(fmt::format("/proc/{}", id).c_str(), F_OK) == 0;
            if (stat->state != 'Z' || Clock::now() > deadline) return true;
            ::usleep(10'000);
        }
    };
    if (std::ranges::any_of(ids, taken)) return false;
    const auto leads_others = [&] {
        return std::ranges::any_of(proc::processes(), [&](pid_t pid) {
            const auto stat = proc::stat(pid);
            return stat && (ids.contains(KernelId(stat->pgrp)) || ids.contains(KernelId(stat->session)));
        });
    };
    while (leads_others()) {
        if (Clock::now() > deadline) return false;
        ::usleep(10'000);
    }
    return true;
}

}  // namespace cairn::restart
