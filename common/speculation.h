// What a thread has asked the processor not to guess (prctl(2), PR_SET_SPECULATION_CTRL; its children,
// threads and what it executes inherit it), as /proc/TID/status tells it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/proc.h"

namespace cairn {

// PR_SPEC_DISABLE, PR_SPEC_FORCE_DISABLE or PR_SPEC_DISABLE_NOEXEC; none: it may guess, or the machine lets
// no thread choose.
struct Speculation {
    std::optional<std::int32_t> store_bypass, indirect_branch;

    bool operator==(const Speculation&) const = default;
};

[[nodiscard]] Speculation speculation_of(const proc::Status& status);

}  // namespace cairn
