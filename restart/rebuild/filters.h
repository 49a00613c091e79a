// Seccomp filters that the program has installed itself, and its strict mode: there again last of all. What a
// restart calls behind that isn't judged by them if the kernel lets us suspend them
// (PTRACE_O_SUSPEND_SECCOMP), else the checkpoint has asked them about it (capture/collect/filters.cpp).
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
