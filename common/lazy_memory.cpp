#include "common/lazy_memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>

#include "common/fd.h"

namespace cairn {

Result<> can_be_lazy() {
    utsname host = {};
    ::uname(&host);
    unsigned major = 0, minor = 0;
    // Before 6.17 a mremap() that shrinks and moves tells of the length before: pages would go astray.
    if (std::sscanf(host.release, "%u.%u", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 17))
        return fail("memory can come lazily since Linux 6.17, this is {}", host.release);
    const Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
    if (!fd)
        return fail_errno(
            "userfaultfd, which lazy memory needs (CAP_SYS_PTRACE or vm.unprivileged_userfaultfd)");
    uffdio_api api = {UFFD_API, lazy_memory_features, 0};
    if (::ioctl(fd.get(), UFFDIO_API, &api) != 0)
        return fail_errno("userfaultfd with events of fork, which lazy memory needs (CAP_SYS_PTRACE)");
    return {};
}

}  // namespace cairn
