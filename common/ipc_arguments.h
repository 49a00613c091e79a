// Calls that name a System V object in a register: made again after a restart, they must name it as the
// kernel does then.
#pragma once

#include <sys/ipc.h>
#include <sys/syscall.h>

#include "common/ipc_map.h"
#include "common/ptrace/restart_code.h"
#include "common/ptrace/thread.h"

namespace cairn {

// 0: none.
inline IpcKind ipc_kind_of_call(unsigned long long call) {
    switch (call) {
        case SYS_shmat:
        case SYS_shmctl:
            return IpcKind::memory;
        case SYS_semop:
        case SYS_semtimedop:
        case SYS_semctl:
            return IpcKind::semaphores;
        case SYS_msgsnd:
        case SYS_msgrcv:
        case SYS_msgctl:
            return IpcKind::messages;
        default:
            return {};
    }
}

// Whether a call takes or gives an id of a System V object.
inline bool speaks_of_ipc(unsigned long long call) {
    return ipc_kind_of_call(call) != IpcKind{} || call == SYS_shmget || call == SYS_semget ||
           call == SYS_msgget;
}

// `translate`: (kind, id) -> id. Changes the arguments of a call that is to be made again.
template <class Translate>
void translate_ipc_arguments(ptrace::Registers& registers, const Translate& translate) {
    if (!to_be_made_again(registers)) return;
    const IpcKind kind = ipc_kind_of_call(registers.orig_rax);
    if (kind == IpcKind{}) return;
    // Commands that take an index into the kernel's table: IPC_INFO and *_STAT, *_INFO, *_STAT_ANY.
    const auto command = registers.orig_rax == SYS_semctl ? registers.rdx : registers.rsi;
    const bool controls = registers.orig_rax == SYS_shmctl || registers.orig_rax == SYS_semctl ||
                          registers.orig_rax == SYS_msgctl;
    constexpr unsigned long long ipc_info = 3, semaphores_last_plain = 17, others_last_plain = 12;
    constexpr unsigned long long messages_stat = 11;
    if (controls && command == ipc_info) return;
    if (registers.orig_rax == SYS_semctl && command > semaphores_last_plain) return;
    if (registers.orig_rax == SYS_shmctl && command > others_last_plain) return;
    if (registers.orig_rax == SYS_msgctl && command >= messages_stat) return;
    const auto id = static_cast<std::int32_t>(registers.rdi);
    registers.rdi = static_cast<unsigned long long>(static_cast<long long>(translate(kind, id)));
}

}  // namespace cairn
