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

// Whoever has no no_new_privs needs CAP_SYS_ADMIN for a filter, which many give up once they have theirs:
// until it is installed again this thread has that right beyond its own.
[[nodiscard]] bool borrows_right(const schema::Thread& thread);

// Every thread stands still and may be made to call. `threads`: in the order of Process::threads; `programs`:
// address of each filter's struct sock_fprog; `call_at`: of a system call instruction; `scratch`: of 64 bytes
// that nobody needs. Rights that were borrowed are given back.
[[nodiscard]] Result<> install_filters(const schema::Process& process, std::span<const ThreadIds> threads,
                                       std::span<const ProgramAddress> programs, ProgramAddress call_at,
                                       ProgramAddress scratch);

}  // namespace cairn::restart
