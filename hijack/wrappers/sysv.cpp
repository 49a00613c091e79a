// System V objects: ids as the programs know them, which ids they use, who used one last, and what SEM_UNDO
// has promised: none of that can be asked of the kernel.
//
// A thread that is stopped between a translation and its call, or between a call and the note of its outcome,
// is stepped over the gap (capture/translation.h). It is stepped to the next system call at the most, so none
// may stand in a gap.
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include <cstdarg>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/timing.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

int real(IpcKind kind, int id) {
    return region() != nullptr ? ipc_to_real(region()->ipc, kind, id) : id;
}

int program(IpcKind kind, int id) {
    return region() != nullptr ? ipc_to_program(region()->ipc, kind, id) : id;
}

template <class Get>
int meet(IpcKind kind, Get get) {
    if (region() == nullptr) return get();
    const int id = get();
    return id >= 0 ? meet_ipc(region()->ipc, kind, id) : id;
}

// An id that came by a file, a pipe or an argument, and not by one of our wrappers.
void used(IpcKind kind, int id) {
    if (region() != nullptr && find_ipc(region()->ipc, ipc_key(kind, id)) == nullptr)
        bind_ipc(region()->ipc, kind, id, id);
}

void forget(IpcKind kind, int id) {
    if (region() != nullptr) forget_ipc(region()->ipc, kind, id);
}

bool promises(const struct sembuf* operations, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if ((operations[i].sem_flg & SEM_UNDO) != 0 && operations[i].sem_op != 0) return true;
    return false;
}

template <class Operate>
int operate(int id, const struct sembuf* operations, std::size_t count, Operate call) {
    constexpr std::size_t most = 500;  // SEMOPM: with more the kernel doesn't look at them, nor do we
    if (region() == nullptr || operations == nullptr || count > most)
        return call(real(IpcKind::semaphores, id));
    // The kernel's pid may be another one when the call returns.
    const std::int32_t self = virtual_id(raw::pid());
    // A bad address is the kernel's to find out: looked at only when it has been accepted.
    const int result = call(real(IpcKind::semaphores, id));
    if (result != 0) return result;
    used(IpcKind::semaphores, id);
    if (!promises(operations, count)) return result;
    for (std::size_t i = 0; i < count; ++i)
        if ((operations[i].sem_flg & SEM_UNDO) != 0)
            promise_undo(region()->ipc, real_id(self), undo_key(id, operations[i].sem_num),
                         -operations[i].sem_op);
    return result;
}

}  // namespace

CAIRN_EXPORT int shmget(key_t key, std::size_t size, int flags) noexcept {
    return meet(IpcKind::memory, [=] { return next<"shmget">(&::shmget)(key, size, flags); });
}

// What is attached is seen in the map of the process.
CAIRN_EXPORT void* shmat(int id, const void* address, int flags) noexcept {
    return next<"shmat">(&::shmat)(real(IpcKind::memory, id), address, flags);
}

// A segment that is removed lives until the last has detached it, and so does its id.
CAIRN_EXPORT int shmctl(int id, int command, struct shmid_ds* about) noexcept {
    const bool by_index =
        command == SHM_STAT || command == SHM_STAT_ANY || command == SHM_INFO || command == IPC_INFO;
    const int result = next<"shmctl">(&::shmctl)(by_index ? id : real(IpcKind::memory, id), command, about);
    if (result < 0) return result;
    const bool gives_id = command == SHM_STAT || command == SHM_STAT_ANY;
    if ((command == IPC_STAT || gives_id) && ids_are_virtual()) {
        about->shm_cpid = virtual_id(about->shm_cpid);
        about->shm_lpid = virtual_id(about->shm_lpid);
    }
    return gives_id ? program(IpcKind::memory, result) : result;
}

CAIRN_EXPORT int msgget(key_t key, int flags) noexcept {
    return meet(IpcKind::messages, [=] { return next<"msgget">(&::msgget)(key, flags); });
}

CAIRN_EXPORT int msgsnd(int id, const void* message, std::size_t size, int flags) {
    const int result = next<"msgsnd">(&::msgsnd)(real(IpcKind::messages, id), message, size, flags);
    if (result == 0) used(IpcKind::messages, id);
    return result;
}

CAIRN_EXPORT ssize_t msgrcv(int id, void* message, std::size_t size, long type, int flags) {
    const ssize_t result = next<"msgrcv">(&::msgrcv)(real(IpcKind::messages, id), message, size, type, flags);
    if (result >= 0) used(IpcKind::messages, id);
    return result;
}

CAIRN_EXPORT int msgctl(int id, int command, struct msqid_ds* about) noexcept {
    const bool by_index =
        command == MSG_STAT || command == MSG_STAT_ANY || command == MSG_INFO || command == IPC_INFO;
    const int result = next<"msgctl">(&::msgctl)(by_index ? id : real(IpcKind::messages, id), command, about);
    if (result < 0) return result;
    const bool gives_id = command == MSG_STAT || command == MSG_STAT_ANY;
    if ((command == IPC_STAT || gives_id) && ids_are_virtual()) {
        about->msg_lspid = virtual_id(about->msg_lspid);
        about->msg_lrpid = virtual_id(about->msg_lrpid);
    }
    if (command == IPC_RMID) forget(IpcKind::messages, id);
    return gives_id ? program(IpcKind::messages, result) : result;
}

CAIRN_EXPORT int semget(key_t key, int count, int flags) noexcept {
    return meet(IpcKind::semaphores, [=] { return next<"semget">(&::semget)(key, count, flags); });
}

CAIRN_EXPORT int semop(int id, struct sembuf* operations, std::size_t count) noexcept {
    return operate(id, operations, count,
                   [=](int kernels) { return next<"semop">(&::semop)(kernels, operations, count); });
}

CAIRN_EXPORT int semtimedop(int id, struct sembuf* operations, std::size_t count,
                            const struct timespec* timeout) noexcept {
    const auto call = [=](int kernels) {
        return next<"semtimedop">(&::semtimedop)(kernels, operations, count, timeout);
    };
    if (region() == nullptr) return call(id);
    const Noted note(SYS_semtimedop, Noted::nanoseconds(timeout));
    return operate(id, operations, count, call);
}

CAIRN_EXPORT int semctl(int id, int number, int command, ...) noexcept {
    va_list list;
    va_start(list, command);
    auto* argument = va_arg(list, void*);  // union semun is a word
    va_end(list);
    const bool by_index =
        command == SEM_STAT || command == SEM_STAT_ANY || command == SEM_INFO || command == IPC_INFO;
    const auto call = [=] {
        return next<"semctl">(&::semctl)(by_index ? id : real(IpcKind::semaphores, id), number, command,
                                         argument);
    };
    if (region() == nullptr) return call();
    const int result = call();
    if (result < 0) return result;
    switch (command) {
        case GETPID:
            return virtual_id(result);
        case SETVAL:
            void_undo(region()->ipc, [key = undo_key(id, static_cast<std::uint32_t>(number))](
                                         std::uint64_t semaphore) { return semaphore == key; });
            return result;
        case IPC_RMID:
            forget(IpcKind::semaphores, id);
            [[fallthrough]];
        case SETALL:
            void_undo(region()->ipc, [key = undo_key(id, 0)](std::uint64_t semaphore) {
                return semaphore >> 16 == key >> 16;
            });
            return result;
        case SEM_STAT:
        case SEM_STAT_ANY:
            return program(IpcKind::semaphores, result);
        default:
            return result;
    }
}
