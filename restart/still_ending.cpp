#include "restart/still_ending.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "common/human.h"
#include "common/printable.h"
#include "common/proc.h"
#include "common/wire/events.h"
#include "restart/tell.h"

namespace cairn::restart {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks{50};
constexpr std::chrono::seconds until_told{1}, patience{60};
constexpr std::chrono::seconds silence{10};  // of the coordinator, as for other verbs (docs/cairn.1)

// One that has been killed in a system call that can't be interrupted has the signal waiting, and nothing
// else to do.
bool thread_is_ending(pid_t pid, pid_t tid) {
    constexpr unsigned long exiting = 4;  // PF_EXITING, linux/sched.h
    const auto stat = proc::stat(pid, tid);
    if (!stat || (stat->flags & exiting) != 0) return true;
    const auto status = proc::status(pid, tid);
    if (!status) return true;
    return std::ranges::any_of(std::array{"SigPnd", "ShdPnd"}, [&](const char* field) {
        return (proc::hexadecimal((*status)[field]) >> (SIGKILL - 1) & 1) != 0;
    });
}

bool process_is_ending(pid_t pid) {
    const auto tasks = proc::tasks(pid);
    return !tasks || std::ranges::all_of(*tasks, [&](pid_t tid) { return thread_is_ending(pid, tid); });
}

Result<std::vector<wire::Process>> members_of_session(CoordinatorClient& client) {
    std::vector<wire::Process> members;
    const auto keep = [&](const nlohmann::json& event) {
        if (event.value("event", "") == wire::Process::name.value)
            members.push_back(wire::glean<wire::Process>(event));
    };
    CHECK_OK(error_of(client.ask({{"verb", "list"}}, keep, silence)));
    return members;
}

bool is_ending(const wire::Process& member) {
    return !member.host && process_is_ending(member.real.number());
}

}  // namespace

Result<> await_ending(CoordinatorClient& client, bool quiet) {
    const auto begin = Clock::now();
    for (bool told = quiet;;) {
        const auto members = TRY(members_of_session(client));
        if (members.empty() || !std::ranges::all_of(members, is_ending)) return {};
        const auto waited = Clock::now() - begin;
        const auto who =
            fmt::format("{} that had been killed, {} ({}) for one, {} not ended yet",
                        human_count(members.size(), "process", "processes"), members.front().real,
                        printable(members.front().comm), members.size() == 1 ? "has" : "have");
        if (waited > patience)
            return fail_code(ExitCode::timed_out, "{}, and {} s were waited for", who, patience.count());
        if (!told && waited > until_told) {
            tell("cairn: waiting: {}\n", who);
            told = true;
        }
        std::this_thread::sleep_for(between_looks);
    }
}

}  // namespace cairn::restart
