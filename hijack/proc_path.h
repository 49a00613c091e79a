// Paths under /proc with ids in them.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hijack/ids.h"
#include "hijack/raw.h"

namespace cairn::hijack {

inline constexpr std::size_t longest_path = 4096;  // PATH_MAX

// May `path` name somebody by his id? Absolute paths only: who walks /proc by descriptors has read real ids
// there.
inline bool may_have_ids(const char* path) {
    return path != nullptr && path[0] == '/' && path[1] == 'p' && path[2] == 'r' && path[3] == 'o' &&
           path[4] == 'c' && path[5] == '/';
}

// Writes `path` with the real ids of the components of /proc/ID and /proc/X/task/ID. False if it gets too
// long.
bool write_real_path(const char* path, char (&to)[longest_path]);

// The target of the links /proc/self and /proc/thread-self, in `target`, with virtual ids; gives its new
// length. Other links are left alone.
ssize_t virtual_link(const char* path, char* target, ssize_t length, std::size_t room);

// Of the path as the kernel understands it now, which is left in `real`, or of the path itself if it stays as
// it is.
std::uint64_t write_current_path(const char* path, char (&real)[longest_path]);

inline bool has_failed(long answer) {
    return answer < 0;
}
inline bool has_failed(const void* answer) {
    return answer == nullptr;
}

// After a failure it is looked whether the path has become another in between, by a restart from there.
template <class Use>
[[gnu::noinline]] auto with_written_path(const char* path, Use use) {
    char real[longest_path];
    for (std::uint64_t mark = write_current_path(path, real);;) {
        const auto answer = use(real[0] != '\0' ? static_cast<const char*>(real) : path);
        if (!has_failed(answer)) return answer;
        const std::uint64_t before = std::exchange(mark, write_current_path(path, real));
        if (mark == before) return answer;
    }
}

// Shorter ones than "/proc/1" with its end name nobody, and a wrong address is the kernel's to find out
// (EFAULT): that many bytes are read by a call that does nothing else with them (sigprocmask(),
// kernel/signal.c).
inline bool can_have_ids(const char* path) {
    constexpr long no_such_way = -1, error_fault = -14, size = 8;
    return raw::call(SYS_rt_sigprocmask, no_such_way, path, nullptr, size) != error_fault &&
           may_have_ids(path);
}

// Calls `use` with the path that the kernel understands.
template <class Use>
inline auto with_real_path(const char* path, Use use) {
    if (!ids_are_virtual()) [[likely]] {
        const auto answer = use(path);
        // Else it has been restarted meanwhile.
        if (!has_failed(answer) || !ids_are_virtual()) return answer;
    }
    return can_have_ids(path) ? with_written_path(path, use) : use(path);
}

}  // namespace cairn::hijack
