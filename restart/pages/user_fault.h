// userfaultfd(2), as the page server needs it.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "restart/pages/changes.h"

namespace cairn::restart::pages {

inline constexpr std::uint64_t page = 4096;
// For who asks about the process and not about its memory.
inline constexpr ProgramAddress anywhere(page);

enum class Probe { registered, not_registered, changing, gone };
// Changes nothing: UFFDIO_CONTINUE is for shared memory, but first of all the kernel looks at who is
// registered. `changing`: an event hasn't been read yet. `gone`: the process has no memory any more.
[[nodiscard]] Probe probe(int fd, ProgramAddress address);

void wake(int fd, ProgramAddress address, std::uint64_t length);

// How many faults nobody has read yet (/proc/self/fdinfo). If there are none, and something is to be read, it
// is an event.
[[nodiscard]] std::size_t faults_waiting(int fd);
// What a message that is no page fault says; `child` is the caller's to fill in.
[[nodiscard]] Event change_in(const uffd_msg& message);

// Areas with MADV_WIPEONFORK.
[[nodiscard]] std::vector<ProgramRange> wiped_on_fork(pid_t pid);

}  // namespace cairn::restart::pages
