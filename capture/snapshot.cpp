// Holds a copy-on-write child by ptrace, and ends it.
#include "capture/snapshot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace cairn::capture {

Snapshot::Snapshot(SnapshotChild child) : child_(std::move(child)) {
    seized_ = ptrace::seize(child_.pid, PTRACE_O_EXITKILL).has_value();
    // should memory run out, this one goes first
    const std::string file = fmt::format("/proc/{}/oom_score_adj", child_.pid);
    if (const Fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC)); fd) (void)!::write(fd.get(), "1000", 4);
    // If it still lives it is what we have seized, and the number is its own until we have waited for it.
    // There may be more of these than descriptors.
    if (seized_ && ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), 0, nullptr, 0) == 0)
        child_.pidfd.reset();
}

Snapshot::~Snapshot() {
    end();
    if (seized_) ::waitpid(child_.pid, nullptr, __WALL);
}

void Snapshot::end() {
    if (std::exchange(ended_, true)) return;
    if (child_.pidfd)
        ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
    else if (seized_)
        ::kill(child_.pid, SIGKILL);
}

}  // namespace cairn::capture
