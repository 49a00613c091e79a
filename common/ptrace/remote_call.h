// System calls that a stopped thread makes because its tracer says so.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/error.h"
#include "common/program_address_text.h"

namespace cairn::ptrace {

// Where in these bytes the first `syscall` instruction is; none: nowhere.
[[nodiscard]] std::optional<std::uint64_t> find_syscall(std::span<const std::byte> code);
// Its address in these bytes of a process's memory. Errors: there is none, or they can't be read.
[[nodiscard]] Result<ProgramAddress> find_syscall(pid_t pid, ProgramAddress code, std::uint64_t length);

// One system call in a stopped thread; its registers are lost. It stops behind the call without a
// signal: a trap would put an action of SIGTRAP's to its default if that is to be ignored (force_sig).
// Signals that can be blocked have to be. The result is the kernel's: an errno is negative.
//
// Of many threads, the call is begun in all, then all go on once, then each is finished: on the way from one
// stop to the next nobody waits for any of them.
class RemoteCall {
  public:
    [[nodiscard]] static Result<RemoteCall> begin(pid_t tid, ProgramAddress syscall_at, long number,
                                                  std::span<const std::uint64_t> arguments);
    // Waits for its next stop, which is before the call, or behind it.
    [[nodiscard]] Result<> go_on();
    [[nodiscard]] Result<std::int64_t> finish();

  private:
    RemoteCall(pid_t tid, ProgramAddress syscall_at, long number)
        : tid_(tid), syscall_at_(syscall_at), number_(number) {}

    pid_t tid_;
    ProgramAddress syscall_at_;
    long number_;
    std::optional<std::int64_t> result_{};
};

// The same with one alone.
[[nodiscard]] Result<std::int64_t> remote_call(pid_t tid, ProgramAddress syscall_at, long number,
                                               std::span<const std::uint64_t> arguments);

}  // namespace cairn::ptrace
