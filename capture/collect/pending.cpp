// Signals that nobody has taken yet, and timers that have sent one of them while they were asked.
//
// Time doesn't stand still with the program: a timer can fire between any two questions. What is pending is
// read before the timers are, and once more last of all: a firing between would be neither pending nor left.
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "capture/collect/collect.h"
#include "common/siginfo.h"

namespace cairn::capture {
namespace {

// `to_program` none: the senders are as the receiver calls them, and are to stay so.
Result<std::vector<schema::Bytes>> pending_of(pid_t tid, bool of_process, const ToProgram& to_program) {
    auto pending = TRY(ptrace::pending(tid, of_process));
    std::vector<schema::Bytes> result;
    for (const auto& info : pending) {
        const auto* begin = reinterpret_cast<const std::uint8_t*>(&info);
        result.emplace_back(begin, begin + sizeof info);
        if (to_program) translate_sender<KernelId>(result.back(), to_program);
    }
    return result;
}

// `whose`: of a thread that isn't one, nothing is pending.
Result<> pending_of_threads(const StoppedProcess& process, const ToProgram& to_program,
                            const std::function<bool(const StoppedThread&)>& whose, schema::Process& image) {
    for (std::size_t i = 0; i < process.threads.size(); ++i) {
        if (process.threads[i].leader_dead || !whose(process.threads[i])) continue;
        auto pending = pending_of(process.threads[i].tid, false, to_program);
        if (!pending) return std::unexpected(std::move(pending.error()).in(proc::label(process.pid)));
        image.threads[i].pending = std::move(*pending);
    }
    return {};
}

using Signals = std::vector<schema::Bytes>;

siginfo_t info_of(const schema::Bytes& bytes) {
    siginfo_t info = {};
    std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof info));
    return info;
}

constexpr std::array interval_signals = {SIGALRM, SIGVTALRM, SIGPROF};  // ITIMER_REAL, _VIRTUAL, _PROF

bool by_timer(const schema::Bytes& signal) {
    const auto info = info_of(signal);
    return info.si_code == SI_TIMER ||
           (info.si_code == SI_KERNEL &&
            std::ranges::find(interval_signals, info.si_signo) != interval_signals.end());
}

// Others that have come meanwhile, from outside, are later than the checkpoint.
void add_firings(const Signals& now, Signals& known, Signals& fired) {
    const Signals before = known;
    for (const auto& signal : now) {
        if (!by_timer(signal) || std::ranges::find(before, signal) != before.end()) continue;
        known.push_back(signal);
        fired.push_back(signal);
    }
}

// Its signal is saved. What was left when it was asked would send another one.
void has_fired(std::int64_t& left, std::int64_t interval, std::int64_t asked_for) {
    if (left == 0) return;
    if (interval == 0) {
        left = 0;
    } else if (left < asked_for) {  // or it has fired before it was asked, and this is the time of the next
        left += interval;
    }
}

}  // namespace

Result<> collect_pending(const StoppedProcess& process, const ToProgram& to_program, schema::Process& image) {
    const auto named = process.inner ? ToProgram() : to_program;
    // Its status was read when it stood still already.
    const auto has_pending = [](const StoppedThread& thread) {
        return !thread.asked || thread.asked->has_pending;
    };
    CHECK_OK(pending_of_threads(process, named, has_pending, image));
    auto pending = TRY(pending_of(process.first_living().tid, true, named));
    image.pending = std::move(pending);
    return {};
}

Result<> collect_firings(const StoppedProcess& process, std::chrono::nanoseconds asked_for,
                         const ToProgram& to_program, schema::Process& image) {
    const auto named = process.inner ? ToProgram() : to_program;
    schema::Process now;
    now.pending = TRY(pending_of(process.first_living().tid, true, named));
    // To one thread only timer_create(2)'s timers send (SIGEV_THREAD_ID).
    if (!image.timers.empty()) {
        const auto everybody = [](const StoppedThread&) { return true; };
        now.threads.resize(image.threads.size());
        CHECK_OK(pending_of_threads(process, named, everybody, now));
    }
    Signals fired;
    add_firings(now.pending, image.pending, fired);
    for (std::size_t i = 0; i < now.threads.size(); ++i)
        add_firings(now.threads[i].pending, image.threads[i].pending, fired);
    for (const auto& signal : fired) {
        const auto info = info_of(signal);
        if (info.si_code == SI_TIMER) {
            for (auto& timer : image.timers)
                if (timer.id == info.si_timerid) has_fired(timer.left, timer.interval, asked_for.count());
        } else {
            const auto which = static_cast<std::size_t>(std::ranges::find(interval_signals, info.si_signo) -
                                                        interval_signals.begin());
            auto& timer = image.itimers.at(which);
            has_fired(timer.left_us, timer.interval_us, asked_for.count() / 1'000);
        }
    }
    return {};
}

}  // namespace cairn::capture
