// Who has a session's region mapped, and as whom he runs: by the kernel's word, whatever the region says.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "common/program_address.h"

namespace cairn {

// A file as /proc/PID/maps shows it: on overlayfs and btrfs stat(2) gives another device number.
struct FileKey {
    std::uint32_t major = 0, minor = 0;
    std::uint64_t inode = 0;

    bool operator==(const FileKey&) const = default;
};

// The file that this process itself has mapped at `address`.
[[nodiscard]] FileKey mapped_file(const void* address);

enum class Mapped { no, yes, unknown };  // unknown: /proc/PID/maps may not be read
struct MappedAt {
    Mapped mapped = Mapped::unknown;
    ProgramRange at;
    bool library = false;  // libcairn.so is mapped too: a member and not one of our tools
};
[[nodiscard]] MappedAt find_mapping(pid_t pid, const FileKey& file);

// As whom a process or thread runs (credentials(7)), in our user namespace.
struct UserIds {
    uid_t real = 0, effective = 0, saved = 0;

    bool operator==(const UserIds&) const = default;

    [[nodiscard]] bool has(uid_t user) const { return real == user || effective == user || saved == user; }
    // Whether the region of `user` is the one for it, in a session of `owner`: who can still become the owner
    // is the owner's.
    [[nodiscard]] bool belongs_to(uid_t user, uid_t owner) const {
        return has(user) && (user == owner || !has(owner));
    }
    // Whose region is the one for it.
    [[nodiscard]] uid_t region_of(uid_t owner) const { return has(owner) ? owner : effective; }
};

// Nothing if there is no such process. `id`: of a process or thread.
[[nodiscard]] std::optional<UserIds> user_ids(pid_t id);

}  // namespace cairn
