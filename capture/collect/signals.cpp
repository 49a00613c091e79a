// Handlers, pending signals, masks and POSIX timers of a stopped process.
#include <sys/time.h>

#include <charconv>
#include <cstring>
#include <sstream>

#include "capture/collect/collect.h"
#include "common/cpu_clock.h"

namespace cairn::capture {
namespace {

// "notify: signal/tid.1234"
void read_notify(const std::string& text, KernelTimer& timer) {
    const auto slash = text.find('/');
    const auto how = text.substr(0, slash);
    timer.image.notify = how == "none" ? SIGEV_NONE : how == "thread" ? SIGEV_THREAD : SIGEV_SIGNAL;
    if (text.compare(slash + 1, 4, "tid.") == 0) {
        timer.image.notify |= SIGEV_THREAD_ID;
        timer.tid = KernelId(std::atoi(text.c_str() + slash + 5));
    }
}

}  // namespace

Result<std::vector<KernelTimer>> list_timers(pid_t pid) {
    auto text = proc::read_file(fmt::format("/proc/{}/timers", pid));
    if (!text) {
        if (text.error().number == ENOENT) return std::vector<KernelTimer>{};  // kernel without POSIX timers
        return std::unexpected(std::move(text.error()));
    }
    std::vector<KernelTimer> timers;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const auto key = line.substr(0, colon);
        const auto value = line.substr(colon + 2);
        if (key == "ID") {
            timers.emplace_back().image.id = std::atoi(value.c_str());
        } else if (timers.empty()) {
            continue;
        } else if (key == "signal") {  // "14/00007f00..." : number / sigev_value
            auto& timer = timers.back().image;
            timer.signal = std::atoi(value.c_str());
            const auto slash = value.find('/');
            std::from_chars(value.data() + slash + 1, value.data() + value.size(), timer.value, 16);
        } else if (key == "notify") {
            read_notify(value, timers.back());
        } else if (key == "ClockID") {
            timers.back().clock = std::atoi(value.c_str());
        }
    }
    return timers;
}

Result<> collect_signals(const StoppedProcess& process, const AgentProcess& answers,
                         const ToProgram& to_program, schema::Process& image) {
    for (const auto& action : answers.actions)
        image.actions.push_back(
            {ProgramAddress(action.handler), action.flags, ProgramAddress(action.restorer), action.mask});
    for (const auto& timer : answers.itimers)
        image.itimers.push_back({timer.left_sec * 1'000'000 + timer.left_usec,
                                 timer.interval_sec * 1'000'000 + timer.interval_usec});
    // A periodic ITIMER_REAL whose SIGALRM nobody has taken yet stands still: the kernel winds it up when the
    // signal is taken (dequeue_signal, kernel/signal.c) and tells 0 until then, which would be disarmed.
    if (auto& real = image.itimers.at(ITIMER_REAL); real.left_us == 0) real.left_us = real.interval_us;
    auto timers = TRY(list_timers(process.living));
    for (const auto& found : timers) {
        schema::PosixTimer timer = found.image;
        for (std::uint32_t i = 0; i < answers.timer_count; ++i) {
            const auto& answer = answers.timers[i];
            if (answer.id != timer.id) continue;
            timer.left = answer.left_ns;
            timer.interval = answer.interval_ns;
            timer.overrun = answer.overrun;
        }
        timer.tid = to_program(found.tid);
        timer.clock = names_task(found.clock)
                          ? clock_of_task(found.clock, to_program(task_of<KernelId>(found.clock)))
                          : found.clock;
        image.timers.push_back(timer);
    }
    return {};
}

}  // namespace cairn::capture
