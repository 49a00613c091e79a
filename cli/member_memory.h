// How much of a process's memory a checkpoint has to store.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>

#include "common/proc.h"

namespace cairn {

// What is in memory and in no file, bytes; 0 if it can't be told.
[[nodiscard]] inline std::uint64_t member_memory(pid_t pid) {
    const auto status = proc::status(pid, pid);
    if (!status) return 0;
    std::uint64_t kib = 0;
    for (const char* name : {"RssAnon", "RssShmem", "VmSwap"})
        kib += std::strtoull((*status)[name].c_str(), nullptr, 10);
    return kib * 1024;
}

}  // namespace cairn
