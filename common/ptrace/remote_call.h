// System calls that a stopped thread makes because its tracer says so.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "common/error.h"
#include "common/program_address_text.h"

namespace cairn::ptrace {

// The address of a `syscall` instruction in these bytes of its memory: [vdso] has some.
[[nodiscard]] Result<ProgramAddress> find_syscall(pid_t pid, ProgramAddress code, std::uint64_t length);

// Makes one system call in a stopped thread; its registers are lost. It stops behind the call without a
// signal: a trap would put an action of SIGTRAP's to its default if that is to be ignored (force_sig).
// Signals that can be blocked have to be. The result is the kernel's: an errno is negative.
[[nodiscard]] Result<std::int64_t> remote_call(pid_t tid, ProgramAddress syscall_at, long number,
                                               std::span<const std::uint64_t> arguments);

}  // namespace cairn::ptrace
