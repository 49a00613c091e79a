#include "common/open_exactly.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cairn {
namespace {

Fd open_by_rule(int folder, const std::string& name, int flags, std::uint64_t rule) {
    open_how how{};
    // It refuses what open(2) would have overlooked.
    const int meant = (flags & O_PATH) != 0 ? flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : flags;
    how.flags = static_cast<unsigned>(meant);
    how.resolve = rule;
    for (;;) {
        Fd fd(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how)));
        // A rename somewhere else can make the kernel unsure of "..".
        if (fd || errno != EAGAIN || (rule & RESOLVE_BENEATH) == 0) return fd;
    }
}

}  // namespace

Fd open_exactly(int folder, const std::string& name, int flags) {
    return open_by_rule(folder, name, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

Result<Fd> open_beneath(const std::string& directory, const std::string& name, int flags) {
    const Fd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return fail_errno("{}", directory);
    Fd fd = open_by_rule(folder.get(), name, flags,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (fd) return fd;
    const int problem = errno;
    if (problem == ELOOP || problem == EXDEV) {
        auto why = fail_code(ExitCode::damaged, "{}/{} leads out of the folder by a link or its name",
                             directory, name);
        why.error().number = problem;
        return why;
    }
    errno = problem;
    return fail_errno("{}/{}", directory, name);
}

}  // namespace cairn
