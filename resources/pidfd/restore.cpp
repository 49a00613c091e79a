// pidfd_open(2): of a member, once that is there; of a process that had gone, of a child that ends at once.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

Fd pidfd_of(KernelId pid, std::int32_t flags) {
    // PIDFD_NONBLOCK is O_NONBLOCK, PIDFD_THREAD is O_EXCL.
    const auto wanted = static_cast<unsigned>(flags & (O_NONBLOCK | O_EXCL));
    return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid.number(), wanted)));
}

Result<Fd> pidfd_of_the_dead(const schema::Object& object) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    if (child < 0) return fail_errno("fork");
    Fd process = pidfd_of(KernelId(child), object.flags);
    if (!process) process = pidfd_of(KernelId(child), object.flags & ~O_EXCL);
    const int problem = errno;
    ::waitpid(child, nullptr, 0);
    errno = problem;
    if (!process) return fail_errno("pidfd");
    return process;
}

}  // namespace

Result<Fd> open_pidfd(const schema::Object& object, const schema::Pidfd& saved, const ToKernel& to_kernel) {
    if (!saved.pid.known()) return pidfd_of_the_dead(object);
    Fd process = pidfd_of(kernel_id(to_kernel, saved.pid), object.flags);
    if (!process) return fail_errno("pidfd of process {}", saved.pid);
    return process;
}

Result<Fd> open_dead_pidfd(Opening&, const schema::Object& object, const schema::Pidfd&) {
    return pidfd_of_the_dead(object);
}

}  // namespace cairn::restart
