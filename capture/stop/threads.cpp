// Seizes the threads of a process, and lets go of them.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "capture/stop/stopping.h"

namespace cairn::capture {
namespace {

bool traced_by_us(pid_t pid, pid_t tid) {
    auto status = proc::status(pid, tid);
    return status && std::atoi((*status)["TracerPid"].c_str()) == ::getpid();
}

// A ring that is polled by a thread of the kernel's (IORING_SETUP_SQPOLL), which goes on while all others
// stand still.
Result<> refuse_poller(pid_t pid, pid_t tid, const proc::Stat& stat) {
    if (!stat.comm.starts_with("iou-sqp-")) return {};
    return fail_code(
        ExitCode::refused,
        "{} has an io_uring with a thread of the kernel's ({} \"{}\", IORING_SETUP_SQPOLL), which can't be "
        "saved; launch it with --io-uring=enosys, or tell it to do without",
        proc::label(pid), tid, stat.comm);
}

// Whether it is alive, and the program's own, for certain: it has told the kernel of its list of robust
// futexes, as every thread of libc's does. The kernel's threads in a process have none, and who ends has none
// any more (copy_process(), futex_exit_release() in the kernel). Of thousands of threads this is asked in a
// twentieth of the time that a file of /proc takes.
bool lives_for_certain(pid_t tid) {
    const void* head = nullptr;
    std::size_t size = 0;
    return ::syscall(SYS_get_robust_list, tid, &head, &size) == 0 && head != nullptr;
}

// Whether all threads of a process are known, and stand still: as many as it has. What the folder of a
// thousand lists takes as long as a tenth of their stop.
bool knows_all(const Stopping& group, pid_t pid) {
    constexpr std::ptrdiff_t many = 16;
    const auto threads = group.threads.of(pid);
    const auto count = std::ranges::distance(threads);
    if (count < many || !all_still(group, pid)) return false;
    const auto stat = proc::stat(pid);
    return stat && stat->threads == count;
}

}  // namespace

// linux/sched.h: PF_IO_WORKER, and since Linux 6.4 PF_USER_WORKER.
bool is_kernels(const proc::Stat& stat) {
    return (stat.flags & 0x4010) != 0;
}

// A signal that is ignored is dropped by the kernel, but not if the thread that it is meant for is traced;
// and where that one stands still another thread is woken to take it (sig_ignored(), complete_signal() in
// kernel/signal.c), out of a call that answers EINTR and that nobody makes again unless that thread is
// traced, too. So all are seized before one is stopped, and the main thread, which a process's signals are
// meant for, is seized last, and let go first.
Result<bool> seize_new_threads(Stopping& group, pid_t pid) {
    if (knows_all(group, pid)) return true;
    std::vector<pid_t> seized;
    Seizer seizer(group.events);
    bool complete = true;
    // A process of one thread is listed once: a sibling that it bears meanwhile is found at the next look.
    bool has_siblings = true;
    for (const bool main_thread : {false, true}) {
        if (main_thread && !has_siblings) break;
        // Some may have been born since the siblings were listed; none if all of those stand still already.
        const bool list = !main_thread || !seized.empty();
        auto threads = list ? proc::tasks(pid) : std::vector<pid_t>{pid};
        if (!threads) {
            if (threads.error().number == ENOENT || threads.error().number == ESRCH) return true;
            return std::unexpected(std::move(threads.error()));
        }
        if (!main_thread) has_siblings = threads->size() > 1;
        (void)std::ranges::partition(*threads, [pid](pid_t tid) { return tid != pid; });
        for (const pid_t tid : *threads) {
            if (group.threads.contains(tid) || (tid == pid && !main_thread && has_siblings)) continue;
            if (!lives_for_certain(tid)) {
                const auto stat = proc::stat(pid, tid);
                if (!stat || dead(stat->state)) continue;
                if (is_kernels(*stat) && tid != pid) {
                    CHECK_OK(refuse_poller(pid, tid, *stat));
                    continue;
                }
            }
            complete = false;
            if (auto done = seizer.seize(tid, seize_options); !done) {
                seizer.pause();
                // The thread may have ended between the two looks; then it's no error.
                const auto stat = proc::stat(pid, tid);
                if (!stat || dead(stat->state) || done.error().number == ESRCH) continue;
                // A sibling that was seized has execed and goes by this id now.
                // What it stands in we may have been told under its old one.
                if (traced_by_us(pid, tid)) {
                    group.threads.put({pid, tid, stat->state == 't'});
                    if (stat->state != 't') seized.push_back(tid);
                    continue;
                }
                const auto traced = TRY(ask_tracer(group, pid, tid));
                if (traced == Traced::later) continue;
                if (traced == Traced::let_go) done = seizer.seize(tid, seize_options);
                if (!done) {
                    seizer.pause();
                    CHECK_OK(refuse_tracing(group, pid, tid, done.error()));
                    continue;
                }
            }
            group.processes[pid].refused_since.erase(tid);
            group.threads.put({pid, tid});
            seized.push_back(tid);
        }
    }
    seizer.pause();  // of thousands that stop each is asked by itself: drain_events()
    if (!complete) group.note_motion();
    // Fails only if it has gone; the event loop notices.
    for (const pid_t tid : seized) (void)ptrace::interrupt(tid);
    return complete;
}

// A main thread that was dead when we asked, and is alive now because a sibling's exec has taken its place,
// gives EPERM as one does that we may not trace. The latter stays.
Result<> refuse_tracing(Stopping& group, pid_t pid, pid_t tid, const Error& why) {
    const auto [since, first] = group.processes[pid].refused_since.try_emplace(tid, Clock::now());
    if (first || Clock::now() - since->second < std::chrono::milliseconds(500)) return {};
    auto status = proc::status(pid, tid);
    if (status && (*status)["TracerPid"] != "0")
        return fail_code(ExitCode::refused, "{} is being traced by {}: a debugged process can't be saved",
                         proc::label(pid), proc::label(std::atoi((*status)["TracerPid"].c_str())));
    const Registration registration = registration_of(group.regions, pid);
    if (status && (*status)["State"].starts_with('T') && registration &&
        registration.slot->state.load(std::memory_order_acquire) == SlotState::birth)
        return fail_code(ExitCode::refused,
                         "{} was stopped before its first step, and yama lets nobody trace it: let it go on "
                         "(fg, kill -CONT {}) before a checkpoint",
                         proc::label(pid), pid);
    return fail_code(ExitCode::refused,
                     "{} can't be stopped ({}): it runs as another user, gave up being dumpable "
                     "(prctl PR_SET_DUMPABLE, as ssh-agent and gpg-agent do: start such a one by `cairn "
                     "outside`), or the system forbids ptrace "
                     "(`cairn doctor` says by which rule)",
                     proc::label(pid), why.what);
}

bool all_still(const Stopping& group, pid_t pid) {
    const auto threads = group.threads.of(pid);
    return !threads.empty() && std::ranges::all_of(threads, &SeizedThread::still);
}

void release(Stopping& group, pid_t pid) {
    for (const auto& thread : group.threads.of(pid)) {
        if (thread.still) spare_restart(thread.tid);
        (void)ptrace::detach(thread.tid, 0);
    }
    group.threads.erase_if([pid](const SeizedThread& thread) { return thread.pid == pid; });
    group.processes[pid].process = {};
    group.add_candidate(pid);
}
}  // namespace cairn::capture
