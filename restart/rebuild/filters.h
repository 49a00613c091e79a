// Seccomp filters that the program has installed itself: installed again last of all, so that nothing that a
// restart does is judged by them but what the checkpoint has asked them about (capture/collect/filters.cpp).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <utility>

#include "common/error.h"
#include "common/schema/process.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Every thread stands still and may be made to call. `threads`: in the order of Process::threads; `programs`:
// address of each filter's struct sock_fprog; `call_at`: of a system call instruction.
[[nodiscard]] Result<> install_filters(const schema::Process& process, std::span<const ThreadIds> threads,
                                       std::span<const ProgramAddress> programs, ProgramAddress call_at);

}  // namespace cairn::restart
