// Locks of files, by who holds them. In schema::Process even where the lock belongs to an open file
// description that several processes have: one of them is named.
#pragma once

#include <cstdint>
#include <optional>

#include "common/program_fd.h"

namespace cairn::schema {

enum class LockKind {
    posix,        // fcntl(2) F_SETLK: the process's; gone when it closes any descriptor of the file
    description,  // fcntl(2) F_OFD_SETLK: the open file description's
    flock,        // flock(2): the same, and of the whole file
    lease,        // fcntl(2) F_SETLEASE
};

struct FileLock {
    LockKind kind = LockKind::posix;
    ProgramFd fd;                          // a descriptor of the process that leads to the description
    std::int32_t type = 0;                 // F_RDLCK, F_WRLCK (flock: shared, exclusive)
    std::int64_t start = 0, length = 0;    // bytes; length 0: to the end of the file, however long it gets
    std::optional<std::int32_t> breaking;  // of a lease that is being broken: what it has to become (F_*LCK)
};

}  // namespace cairn::schema
