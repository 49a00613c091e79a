// System calls that a process which stands still makes for the restart, while the restorer is in it.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>

#include "common/ptrace/remote_call.h"
#include "common/ptrace/thread.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Of a system call, in the running kernel's vdso, which is in its place by now.
[[nodiscard]] Result<ProgramAddress> call_instruction(const Rebuilding& rebuilding);

// Borrows what it is made of. The main thread's registers are lost.
class Hand {
  public:
    [[nodiscard]] static Result<Hand> of(const Rebuilding& rebuilding) {
        auto call_at = TRY(call_instruction(rebuilding));
        return Hand(rebuilding, call_at);
    }

    // `what` is for the message. Errors have the call's errno.
    template <class... Arguments>
    [[nodiscard]] Result<int> call(const char* what, long number, Arguments... arguments) const {
        const std::array<std::uint64_t, sizeof...(Arguments)> all = {
            static_cast<std::uint64_t>(arguments)...};
        const auto done = TRY(ptrace::remote_call(rebuilding_->pid, call_at_, number, all));
        if (done >= 0) return static_cast<int>(done);
        errno = static_cast<int>(-done);
        return fail_errno("process {}: {}", rebuilding_->process->pid, what);
    }

    // Where the process finds a value for its next call: at the far end of the restorer's stack.
    template <class Value>
    [[nodiscard]] Result<std::uint64_t> put(const Value& value) const {
        const auto at = rebuilding_->placement.stack;
        CHECK_OK(ptrace::write_object(rebuilding_->pid, at, value));
        return at.value();
    }

  private:
    Hand(const Rebuilding& rebuilding, ProgramAddress call_at)
        : rebuilding_(&rebuilding), call_at_(call_at) {}
    const Rebuilding* rebuilding_;
    ProgramAddress call_at_;
};

}  // namespace cairn::restart
