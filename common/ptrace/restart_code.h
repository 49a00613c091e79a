// What the kernel leaves in rax of a system call that was interrupted and is to be made again (linux/errno.h,
// not for user space). do_signal() in arch/x86/kernel/signal.c acts on them when the thread goes back to its
// program, in one step with the delivery of signals.
#pragma once

#include <cstdint>

namespace cairn {

enum class RestartCode : std::int64_t {
    unless_handler = -512,      // ERESTARTSYS: unless a handler runs without SA_RESTART
    always = -513,              // ERESTARTNOINTR
    unless_any_handler = -514,  // ERESTARTNOHAND
    by_block = -516,  // ERESTART_RESTARTBLOCK: by restart_syscall(2), with what the kernel remembers
};

// Of a thread whose orig_rax says that it is in a call.
template <class Registers>
[[nodiscard]] constexpr bool says(const Registers& registers, RestartCode code) {
    return static_cast<std::int64_t>(registers.rax) == static_cast<std::int64_t>(code);
}

template <class Registers>
constexpr void say(Registers& registers, RestartCode code) {
    registers.rax = static_cast<unsigned long long>(code);
}

// A finished call's registers are the program's: it may count on them.
template <class Registers>
[[nodiscard]] constexpr bool to_be_made_again(const Registers& registers) {
    for (const auto code : {RestartCode::unless_handler, RestartCode::always, RestartCode::unless_any_handler,
                            RestartCode::by_block})
        if (says(registers, code)) return true;
    return false;
}

}  // namespace cairn
