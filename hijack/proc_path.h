// Paths under /proc with ids in them.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>

#include "hijack/ids.h"

namespace cairn::hijack {

inline constexpr std::size_t longest_path = 4096;  // PATH_MAX

// May `path` name somebody by his id? Absolute paths only: who walks /proc by descriptors has read real ids
// there.
inline bool may_have_ids(const char* path) {
    return path != nullptr && path[0] == '/' && path[1] == 'p' && path[2] == 'r' && path[3] == 'o' &&
           path[4] == 'c' && path[5] == '/' && ids_are_virtual();
}

// Writes `path` with the real ids of the components of /proc/ID and /proc/X/task/ID. False if it gets too
// long.
bool write_real_path(const char* path, char (&to)[longest_path]);

// The target of the links /proc/self and /proc/thread-self, in `target`, with virtual ids; gives its new
// length. Other links are left alone.
ssize_t virtual_link(const char* path, char* target, ssize_t length, std::size_t room);

template <class Use>
[[gnu::noinline]] auto with_written_path(const char* path, Use use) {
    char real[longest_path];
    return use(write_real_path(path, real) ? static_cast<const char*>(real) : path);
}

// Calls `use` with the path that the kernel understands.
template <class Use>
inline auto with_real_path(const char* path, Use use) {
    if (!may_have_ids(path)) [[likely]]
        return use(path);
    return with_written_path(path, use);
}

}  // namespace cairn::hijack
