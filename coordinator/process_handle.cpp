#include "coordinator/process_handle.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/proc.h"

namespace cairn::coordinator {
namespace {

// The first number that isn't for pidfds: clients, captures and files of /proc need some as well.
int first_reserved() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
    const auto all = std::min<rlim_t>(limit.rlim_cur, 1 << 30);
    return static_cast<int>(all - std::clamp<rlim_t>(all / 4, 32, 256));
}

// Not even a zombie is left. Needs no descriptor.
bool no_such_process(pid_t pid) {
    return ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

Fd open_pidfd(pid_t pid) {
    return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

Result<ProcessHandle> ProcessHandle::of(pid_t pid) {
    ProcessHandle handle;
    handle.pid_ = pid;
    handle.pidfd_ = open_pidfd(pid);
    if (!handle.pidfd_ && errno == ESRCH) return fail_errno("process {}", pid);
    // It tells the process from all others by itself.
    if (handle.pidfd_ && handle.pidfd_.get() < first_reserved()) return handle;
    // The pidfd first: what /proc says after it is said of the same process, or of one that came later, whose
    // pidfd would not be alive.
    const auto stat = proc::stat(pid);
    if (!stat) {
        if (no_such_process(pid)) return std::unexpected(Error{fmt::format("process {}", pid), ESRCH});
        return std::unexpected(stat.error());
    }
    handle.started_ = stat->start_time;
    if (handle.pidfd_.get() >= first_reserved()) handle.pidfd_.reset();
    return handle;
}

ProcessHandle::Sent ProcessHandle::signal(int number) const {
    Fd opened;
    int fd = pidfd_.get();
    if (fd < 0) {
        opened = open_pidfd(pid_);
        if (!opened && errno == ESRCH) return Sent::gone;
        const auto stat = proc::stat(pid_);
        if (stat && stat->start_time != started_) return Sent::gone;
        if (!stat) return no_such_process(pid_) ? Sent::gone : Sent::unclear;
        if (!opened) return number == 0 ? Sent::yes : Sent::unclear;
        fd = opened.get();
    }
    if (::syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0U) == 0) return Sent::yes;
    return errno == ESRCH ? Sent::gone : Sent::unclear;
}

}  // namespace cairn::coordinator
