// A process that may write to no files but those below some folders (Landlock, Linux 5.13): for ranks that
// run a program a second time while its first run still goes on, and writes to the same files. Needs no
// privilege; it holds for all that the process starts, and isn't in an image of it.
#pragma once

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace cairn::mpi::debug {

// In the environment of such a rank: the folders, with a colon between them.
inline constexpr const char* confined_variable = "CAIRN_MPI_WRITES_BELOW";

// Of the rules, so that what the kernel knows can be told without a newer linux/landlock.h: those to write
// to, make and remove files; from version 2 to move them to other folders, from 3 to cut them.
[[nodiscard]] inline std::uint64_t writing_rights(int version) {
    constexpr std::uint64_t write_file = 1U << 1, remove_and_make = 0x1ff0, refer = 1U << 13,
                            truncate = 1U << 14;
    return write_file | remove_and_make | (version >= 2 ? refer : 0) | (version >= 3 ? truncate : 0);
}

// The version of the kernel's Landlock; 0: it has none.
[[nodiscard]] inline int landlock_version() {
    const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0UL,
                                   static_cast<unsigned long>(LANDLOCK_CREATE_RULESET_VERSION));
    return version < 0 ? 0 : static_cast<int>(version);
}

// From now on. `folders`: as above; those that aren't there are passed over. False: errno says why.
[[nodiscard]] inline bool confine(const char* folders) {
    const std::uint64_t rights = writing_rights(landlock_version());
    landlock_ruleset_attr handled{};
    handled.handled_access_fs = rights;
    const auto rules = static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0UL));
    if (rules < 0) return false;
    bool allowed = true;
    for (const char* at = folders; allowed && *at != 0;) {
        const std::size_t length = std::strcspn(at, ":");
        char path[4096];
        const bool fits = length < sizeof path;
        std::memcpy(path, at, fits ? length : 0);
        path[fits ? length : 0] = 0;
        at += length + (at[length] == ':' ? 1 : 0);
        landlock_path_beneath_attr below{};
        below.allowed_access = rights;
        below.parent_fd = ::open(path, O_PATH | O_CLOEXEC);
        if (below.parent_fd < 0) continue;
        allowed = ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0UL) == 0;
        ::close(below.parent_fd);
    }
    allowed = allowed && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              ::syscall(SYS_landlock_restrict_self, rules, 0UL) == 0;
    ::close(rules);
    return allowed;
}

}  // namespace cairn::mpi::debug
