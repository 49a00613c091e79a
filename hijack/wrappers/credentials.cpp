// Changes of user and group. They belong to a thread for the kernel, to the process for POSIX: libc signals
// each sibling by the tid in its block to change its own. With virtual tids that reaches nobody, and the
// program would believe that it has dropped a privilege which its other threads still have. So they fail
// there.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"

using namespace cairn::hijack;

namespace {

// Has this process another thread whose block says another tid than the kernel's?
bool has_renamed_sibling() {
    struct Entry {  // getdents64(2)
        std::uint64_t inode;
        std::int64_t next;
        std::uint16_t length;
        std::uint8_t type;
        char name[1];  // and on
    };
    alignas(Entry) char room[2048];
    const long folder =
        raw::call(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (raw::failed(folder)) return false;
    const cairn::KernelId own = raw::tid();
    bool found = false;
    for (long size; !found && (size = raw::call(SYS_getdents64, folder, room, sizeof room)) > 0;)
        for (long at = 0; at < size;) {
            const auto* entry = reinterpret_cast<const Entry*>(room + at);
            at += entry->length;
            std::int32_t number = 0;
            for (const char* c = entry->name; *c >= '0' && *c <= '9'; ++c) number = number * 10 + (*c - '0');
            const cairn::KernelId tid(number);
            found |=
                tid.known() && tid != own && !cairn::same_number(cairn::program_id(region()->ids, tid), tid);
        }
    raw::call(SYS_close, folder);
    return found;
}

template <class Call>
int for_all_threads(Call call) {
    if (!ids_are_virtual() || !has_renamed_sibling()) return call();
    errno = EAGAIN;
    return -1;
}

template <class Call>
int change_user(Call call) {
    const int result = for_all_threads(call);
    if (result == 0) user_has_changed();
    return result;
}

}  // namespace

CAIRN_EXPORT int setuid(uid_t user) noexcept {
    return change_user([=] { return next<"setuid">(&::setuid)(user); });
}

CAIRN_EXPORT int setgid(gid_t group) noexcept {
    return for_all_threads([=] { return next<"setgid">(&::setgid)(group); });
}

CAIRN_EXPORT int seteuid(uid_t user) noexcept {
    return change_user([=] { return next<"seteuid">(&::seteuid)(user); });
}

CAIRN_EXPORT int setegid(gid_t group) noexcept {
    return for_all_threads([=] { return next<"setegid">(&::setegid)(group); });
}

CAIRN_EXPORT int setreuid(uid_t real, uid_t effective) noexcept {
    return change_user([=] { return next<"setreuid">(&::setreuid)(real, effective); });
}

CAIRN_EXPORT int setregid(gid_t real, gid_t effective) noexcept {
    return for_all_threads([=] { return next<"setregid">(&::setregid)(real, effective); });
}

CAIRN_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
    return change_user([=] { return next<"setresuid">(&::setresuid)(real, effective, saved); });
}

CAIRN_EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved) noexcept {
    return for_all_threads([=] { return next<"setresgid">(&::setresgid)(real, effective, saved); });
}

CAIRN_EXPORT int setgroups(std::size_t count, const gid_t* groups) noexcept {
    return for_all_threads([=] { return next<"setgroups">(&::setgroups)(count, groups); });
}

CAIRN_EXPORT int initgroups(const char* user, gid_t group) {
    return for_all_threads([=] { return next<"initgroups">(&::initgroups)(user, group); });
}
