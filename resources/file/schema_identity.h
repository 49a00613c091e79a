// What tells a file from another one, and from itself at another time.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "resources/file/schema.h"

namespace cairn {

inline constexpr std::uint64_t tail_bytes = 64 * 1024;

// All but the hash of the tail, which is left 0.
[[nodiscard]] schema::FileIdentity identity_of(const struct stat& status);

// XXH3-64 of the last 64 KiB before `size` (all, if it is shorter) of the regular file `fd`, which must be
// open for reading; its position isn't touched. 0: not known (the file can't be read, or is shorter now).
// Never 0 otherwise.
[[nodiscard]] std::uint64_t tail_hash(int fd, std::uint64_t size);

// Same file system and inode; says nothing about the contents.
[[nodiscard]] bool same_inode(const struct stat& a, const struct stat& b);

}  // namespace cairn
