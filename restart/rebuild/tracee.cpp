#include "restart/rebuild/tracee.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

namespace cairn::restart {
namespace {

void await_child(int milliseconds) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec slice = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    ::sigtimedwait(&set, nullptr, &slice);
}

}  // namespace

Happening next_event(const std::map<pid_t, pid_t>& process_of, int milliseconds) {
    for (bool waited = false;;) {
        int status = 0;
        const pid_t tid = ::waitpid(-1, &status, __WALL | WNOHANG);
        if (tid <= 0) {
            if (waited) return {};
            waited = true;
            await_child(milliseconds);
            continue;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) return {tid, Event::ended, status};
        if (!WIFSTOPPED(status)) continue;
        const int event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) return {tid, Event::execed, 0};
        if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) {
            (void)ptrace::resume(tid, 0);
            continue;
        }
        if (event == ptrace::event_stop) {
            // a new thread's first stop, or a stop that was asked for
            if (process_of.contains(tid)) return {tid, Event::stopped, WSTOPSIG(status)};
            (void)ptrace::resume(tid, 0);
            continue;
        }
        if (WSTOPSIG(status) == SIGTRAP) return {tid, Event::trapped, 0};
        return {tid, Event::crashed, WSTOPSIG(status)};
    }
}

}  // namespace cairn::restart
