#include "capture/seize.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>

#include "common/ptrace/thread.h"

namespace cairn::capture {
namespace {

// What the signal handler and the code that it interrupts have in common. As many as there can be siblings.
struct Seen {
    std::array<WaitEvent, 32768> events;
    volatile sig_atomic_t count;
};
constinit Seen seen = {};

void look(int /*signal*/) {
    const int error = errno;
    while (static_cast<std::size_t>(seen.count) < seen.events.size()) {
        WaitEvent event;
        event.tid = ::waitpid(-1, &event.status, WNOHANG | __WALL);
        if (event.tid <= 0) break;
        seen.events[static_cast<std::size_t>(seen.count)] = event;
        seen.count = seen.count + 1;
    }
    errno = error;
}

void set_alarm(long microseconds) {
    const itimerval timer = {{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

Result<> Seizer::seize(pid_t tid, unsigned long options) {
    if (!runs_) {
        struct sigaction action = {};
        action.sa_handler = look;
        action.sa_flags = SA_RESTART;  // the seize itself is restarted in any case (ERESTARTNOINTR)
        ::sigaction(SIGALRM, &action, nullptr);
        seen.count = 0;
        set_alarm(2000);
        runs_ = true;
    }
    return ptrace::seize(tid, options);
}

void Seizer::pause() {
    if (!runs_) return;
    set_alarm(0);
    events_->insert(events_->end(), seen.events.begin(), seen.events.begin() + seen.count);
    runs_ = false;
}

}  // namespace cairn::capture
