// Calls that a thread may sleep in and that name a process in a register: made again after a restart, they
// must name it as the kernel does now.
#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/ptrace/thread.h"

namespace cairn {

// `translate`: id -> id, for pids and process groups alike.
template <class Translate>
void translate_pid_arguments(ptrace::Registers& registers, const Translate& translate) {
    const auto of = [&](unsigned long long value) {
        const auto id = static_cast<pid_t>(value);
        return static_cast<unsigned long long>(static_cast<long long>(id > 0 ? translate(id) : id));
    };
    if (registers.orig_rax == SYS_wait4) {
        const auto id = static_cast<pid_t>(registers.rdi);
        registers.rdi = id < -1 ? static_cast<unsigned long long>(-static_cast<long long>(translate(-id)))
                                : of(registers.rdi);
    } else if (registers.orig_rax == SYS_waitid && (registers.rdi == P_PID || registers.rdi == P_PGID)) {
        registers.rsi = of(registers.rsi);
    }
}

}  // namespace cairn
