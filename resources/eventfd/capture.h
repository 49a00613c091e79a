// What the kernel tells of an eventfd(2) by what it does only.
#pragma once

#include <cstdint>
#include <optional>

#include "common/error.h"

namespace cairn::capture {

// Whether an eventfd with this count is a semaphore (EFD_SEMAPHORE). Its count is another for a moment, and
// put back by a process of its own, also if the capture is killed meanwhile: nobody may use it at that time.
// None: it is full, or somebody uses it.
[[nodiscard]] Result<std::optional<bool>> eventfd_is_semaphore(int fd, std::uint64_t count);

}  // namespace cairn::capture
