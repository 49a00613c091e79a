#include "restart/pages/hold.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "common/proc.h"
#include "common/ptrace/thread.h"
#include "common/same.h"

namespace cairn::restart::pages {
namespace {

// Calls by which memory is unmapped, moved, dropped or given to a child.
constexpr std::array changing_calls = {SYS_munmap, SYS_mremap,           SYS_mmap,  SYS_brk,
                                       SYS_shmat,  SYS_remap_file_pages, SYS_fork,  SYS_clone,
                                       SYS_clone3, SYS_madvise,          SYS_shmdt, SYS_process_madvise};
constexpr std::array forking_calls = {SYS_fork, SYS_clone, SYS_clone3};

// A thread that has queued its event needs the processor for some microseconds more until it sleeps.
constexpr std::uint64_t surely_asleep_ns = 500'000;
constexpr int most_looks = 10'000;  // 0.2 ms each

enum class Where { running, changing, elsewhere };

// /proc/PID/task/TID/syscall: "running", or the number of the call that the thread sleeps in; -1: none. Who
// waits for an event to be read is in state D; a thread in any other state (traced and stopped by the restart
// tool, which lets one thread go after the other) waits for something else.
Where where_is(pid_t pid, pid_t tid) {
    const auto text = proc::read_file(fmt::format("/proc/{}/task/{}/syscall", pid, tid));
    if (!text) return Where::elsewhere;  // it has gone
    if (text->starts_with("running")) return Where::running;
    const long number = std::strtol(text->c_str(), nullptr, 10);
    if (std::ranges::find(changing_calls, number) == changing_calls.end()) return Where::elsewhere;
    const auto stat = proc::stat(pid, tid);
    if (stat && stat->state == 'R') return Where::running;
    return stat && stat->state == 'D' ? Where::changing : Where::elsewhere;
}

// How long it has had a processor (/proc/PID/schedstat). Where the kernel doesn't say, the time that has
// passed.
std::uint64_t time_on_processor(pid_t pid, pid_t tid) {
    if (const auto text = proc::read_file(fmt::format("/proc/{}/task/{}/schedstat", pid, tid)))
        return std::strtoull(text->c_str(), nullptr, 10);
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool in_our_pid_namespace(pid_t pid) {
    struct stat own = {}, other = {};
    return ::stat("/proc/self/ns/pid", &own) == 0 &&
           ::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &other) == 0 && own.st_ino == other.st_ino;
}

}  // namespace

std::vector<pid_t> sharing_memory(pid_t pid) {
    std::vector<pid_t> result = {pid};
    for (const auto other : proc::processes())
        if (other != pid && share_memory(pid, other)) result.push_back(other);
    return result;
}

bool Hold::seize(pid_t tid) {
    if (const auto known = seized_.find(tid); known != seized_.end()) {
        known->second.leaving = false;
        return true;
    }
    if (!ptrace::seize(tid, 0)) return false;
    seized_[tid] = {};
    return ptrace::interrupt(tid).has_value();
}

bool Hold::at_end(pid_t tid, Thread& thread) {
    int status = 0;
    if (!thread.status && ::waitpid(tid, &status, WNOHANG | __WALL) != 0) thread.status = status;
    return thread.status.has_value();
}

bool Hold::seize_changing(const std::vector<pid_t>& processes) {
    std::map<pid_t, std::uint64_t> seen_running;
    for (int look = 0; look < most_looks; ++look) {
        bool found = false, complete = true, again = false;
        for (const auto pid : processes) {
            for (const auto tid : proc::tasks(pid).value_or(std::vector<pid_t>{})) {
                if (const auto known = seized_.find(tid);
                    known != seized_.end() && at_end(tid, known->second))
                    continue;
                const auto where = where_is(pid, tid);
                if (where == Where::changing) {
                    const bool held = seize(tid);
                    found = found || held;
                    complete = complete && (held || where_is(pid, tid) != Where::changing);
                }
                // Between queueing its event and falling asleep, or woken for a moment because another event
                // was read: it may be the one.
                if (where != Where::running) continue;
                const auto now = time_on_processor(pid, tid);
                again = again || now - seen_running.try_emplace(tid, now).first->second < surely_asleep_ns;
            }
        }
        if (!again || !complete) return found && complete;
        ::usleep(200);
    }
    return false;
}

pid_t Hold::forked() {
    for (int look = 0; look < most_looks; ++look) {
        for (auto& [tid, thread] : seized_) {
            if (thread.counted || !at_end(tid, thread)) continue;
            const auto registers = ptrace::registers(tid);
            if (!registers || std::ranges::find(forking_calls, static_cast<long>(registers->orig_rax)) ==
                                  forking_calls.end())
                continue;
            const auto child = static_cast<pid_t>(registers->rax);
            if (child > 0 && share_memory(tid, child)) continue;  // a thread
            thread.counted = true;
            return child > 0 && in_our_pid_namespace(tid) ? child : 0;
        }
        ::usleep(50);
    }
    return 0;
}

void Hold::release() {
    for (auto& [tid, thread] : seized_) thread.leaving = true;
    sweep();
}

void Hold::sweep() {
    for (auto at = seized_.begin(); at != seized_.end();) {
        auto& [tid, thread] = *at;
        if (!thread.leaving || !at_end(tid, thread)) {
            ++at;
            continue;
        }
        const int status = *thread.status;
        // A signal of the program's own that stopped it instead is given back.
        const bool own = WIFSTOPPED(status) && status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP;
        (void)ptrace::detach(tid, own ? WSTOPSIG(status) : 0);
        at = seized_.erase(at);
    }
}

}  // namespace cairn::restart::pages
