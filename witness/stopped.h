// A process that stands still because the witness traces it (ptrace(2)), and system calls done by its
// threads.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/error.h"

namespace cairn::witness {

// Seized and interrupted as long as it lives; whatever a thread waited in goes on afterwards.
class StoppedThread {
  public:
    [[nodiscard]] static Result<StoppedThread> stop(pid_t tid);
    StoppedThread(StoppedThread&& other) noexcept;
    StoppedThread& operator=(StoppedThread&&) = delete;
    ~StoppedThread();

    [[nodiscard]] pid_t tid() const { return tid_; }
    [[nodiscard]] const user_regs_struct& registers() const { return registers_; }
    // False: a seccomp filter of its own, or the strict mode, might kill it for a call that it never made.
    [[nodiscard]] bool may_call() const { return may_call_; }
    // Executes the `syscall` at an address of the process. What the call returns, -errno included.
    [[nodiscard]] Result<std::int64_t> call(std::uint64_t instruction, long number,
                                            std::span<const std::uint64_t> arguments);

  private:
    StoppedThread(pid_t tid, const user_regs_struct& registers) : tid_(tid), registers_(registers) {}

    pid_t tid_ = 0;
    user_regs_struct registers_{};
    bool may_call_ = true;
};

// Where in the process a `syscall` instruction stands (in its vdso, which every process has); 0 if nowhere.
[[nodiscard]] std::uint64_t find_syscall(pid_t pid);

}  // namespace cairn::witness
