// What the kernel tells of the threads that we have seized, and what is to be found out because it doesn't.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

#include "capture/stop/stopping.h"

namespace cairn::capture {
namespace {

// The thread that execed goes by its process's id now, the others have gone without a word. The new image is
// let go until it has registered.
void execed(Stopping& group, pid_t pid) {
    group.vdso_pages.forget();
    group.threads.erase_if([pid](const SeizedThread& thread) { return thread.pid == pid; });
    (void)ptrace::detach(pid, 0);
    group.processes[pid].process = {};
    group.add_candidate(pid);
}

// In the vdso a thread reads the clock by numbers that the running kernel alone has: another one couldn't let
// it finish (docs/decisions/0017-vdso.md). It is there for some ten nanoseconds, so it goes on and is stopped
// again a little later; who asks for the time all the time stands elsewhere after a few times. It is not led
// out by single steps: should we be killed meanwhile, the kernel would give it the SIGTRAP of its last step.
// Who is still there at last stays, and a restart on another kernel says so.
bool sent_on_from_vdso(Stopping& group, SeizedThread& thread) {
    constexpr int most = 100;
    constexpr timespec moment = {0, 20'000};
    if (thread.stop_signal != 0 || thread.sent_on >= most || !group.vdso_pages.holds(thread)) return false;
    ++thread.sent_on;
    if (!ptrace::resume(thread.tid, 0)) return false;
    ::nanosleep(&moment, nullptr);
    (void)ptrace::interrupt(thread.tid);  // fails only if it has ended, which the next event tells
    return true;
}

void look_at(Stopping& group, const WaitEvent& event) {
    group.note_motion();
    const auto [tid, status] = event;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        group.threads.erase(tid);
        return;
    }
    if (!WIFSTOPPED(status)) return;
    if (status >> 16 == PTRACE_EVENT_EXEC) return execed(group, tid);
    auto* thread = group.threads.find(tid);
    if (thread == nullptr) return;
    if (status >> 16 == ptrace::event_stop) {
        thread->stop_signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        thread->still = !sent_on_from_vdso(group, *thread);
        return;
    }
    // A signal on its way to the program: it is delivered, and the thread stops before it runs the
    // handler's first instruction. Any trap takes back a pending interrupt, so it is asked for again.
    thread->still = false;
    (void)ptrace::interrupt(tid);
    (void)ptrace::resume(tid, WSTOPSIG(status));
}

}  // namespace

// A wait for anybody goes through all that we trace, those whose stop we know as well (do_wait_thread(),
// kernel/exit.c), and a wait for one goes to that one (since Linux 5.14): of thousands each is asked by
// itself, and only who isn't expected by the wait for anybody. Where that finds somebody more may have come
// since who are expected.
void drain_events(Stopping& group) {
    for (const auto& event : std::exchange(group.events, {})) look_at(group, event);
    const auto look_for = [&](pid_t whom) {
        WaitEvent event;
        event.tid = ::waitpid(whom, &event.status, __WALL | WNOHANG);
        if (event.tid > 0) look_at(group, event);
        return event.tid > 0;
    };
    do {
        std::vector<pid_t> expected;
        for (const auto& thread : group.threads.all())
            if (!thread.still) expected.push_back(thread.tid);
        std::ranges::for_each(expected, look_for);
    } while (look_for(-1));
}

void await_event() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec slice = {0, 1'000'000};
    ::sigtimedwait(&set, nullptr, &slice);
}

// Threads that don't answer because they are no longer what we have seized. Of a main thread's end the kernel
// tells only when the last of its siblings has ended. And a seize waits for an exec that is under way
// (cred_guard_mutex): if the thread that it was meant for is the one that execs, it goes by its process's id
// afterwards, seized, and was never interrupted.
void look_after_silent(Stopping& group) {
    // Of thousands all are silent for a while: as long as some answer the others are given time.
    constexpr auto patience = std::chrono::milliseconds(5), longest = std::chrono::milliseconds(50);
    const auto now = Clock::now();
    if (now - std::max(group.moved_at(), group.looked_after_silent) < patience &&
        now - group.looked_after_silent < longest)
        return;
    group.looked_after_silent = now;
    drain_events(group);  // who has ended while a seize waited is known, and no sign of an exec
    std::set<pid_t> new_images;
    group.threads.erase_if([&](const SeizedThread& thread) {
        if (thread.still) return false;
        const auto stat = proc::stat(thread.pid, thread.tid);
        if (!stat && !thread.is_main()) new_images.insert(thread.pid);
        return stat && thread.is_main() && dead(stat->state);
    });
    for (const pid_t pid : new_images) {
        // The new image may have threads already that are seized.
        group.threads.erase_if([pid](const SeizedThread& thread) {
            return thread.pid == pid && !thread.is_main() && !proc::stat(pid, thread.tid);
        });
        const auto stat = proc::stat(pid, pid);
        if (stat && stat->state == 't' && group.threads.contains(pid)) continue;
        group.threads.erase(pid);
        if (ptrace::interrupt(pid)) group.threads.put({pid, pid});
    }
}
}  // namespace cairn::capture
