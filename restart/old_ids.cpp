#include "restart/old_ids.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "common/proc.h"
#include "restart/tell.h"

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

namespace {

using Clock = std::chrono::steady_clock;

// Nobody is told of what is over in a moment, and of the rest once.
class Waiting {
  public:
    explicit Waiting(std::chrono::seconds patience) : until_(Clock::now() + patience) {}

    // False: it has lasted long enough. `who` makes the words, when they are needed.
    template <class Who>
    [[nodiscard]] bool go_on(const Who& who) {
        constexpr auto moment = std::chrono::milliseconds(500);
        const auto now = Clock::now();
        if (!told_ && now - began_ > moment) {
            tell("cairn: waiting for an id that the computation had: {}\n", who());
            told_ = true;
        }
        if (now > until_) return false;
        ::usleep(10'000);
        return true;
    }

  private:
    Clock::time_point began_ = Clock::now(), until_;
    bool told_ = false;
};

}  // namespace

bool old_ids_free(std::span<const schema::Process> processes, std::span<const ProgramId> others,
                  std::chrono::seconds patience) {
    Waiting waiting(patience);
    const std::set<KernelId> ids = ids_of(processes, others);
    const auto taken = [&](KernelId id) {
        for (;;) {
            const auto stat = proc::stat(id.number());
            if (!stat) return ::access(fmt::format("/proc/{}", id).c_str(), F_OK) == 0;
            const auto words = [&] {
                return fmt::format("{} has ended, and {}, its parent now, hasn't waited for it yet",
                                   proc::label(id.number()), proc::label(stat->ppid));
            };
            if (stat->state != 'Z' || !waiting.go_on(words)) return true;
        }
    };
    if (std::ranges::any_of(ids, taken)) return false;
    const auto follower = [&]() -> std::optional<pid_t> {
        for (const pid_t pid : proc::processes())
            if (const auto stat = proc::stat(pid);
                stat && (ids.contains(KernelId(stat->pgrp)) || ids.contains(KernelId(stat->session))))
                return pid;
        return std::nullopt;
    };
    while (const auto pid = follower())
        if (!waiting.go_on([&] {
                return fmt::format("{} is still in a session or process group of that number",
                                   proc::label(*pid));
            }))
            return false;
    return true;
}

}  // namespace cairn::restart
