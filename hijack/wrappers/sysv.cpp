// Who used a System V object last.
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include <cstdarg>

#include "hijack/ids.h"
#include "hijack/next.h"

using namespace cairn::hijack;

CAIRN_EXPORT int shmctl(int id, int command, struct shmid_ds* about) noexcept {
    const int result = next<"shmctl">(&::shmctl)(id, command, about);
    if (result >= 0 && (command == IPC_STAT || command == SHM_STAT || command == SHM_STAT_ANY) &&
        ids_are_virtual()) {
        about->shm_cpid = virtual_id(about->shm_cpid);
        about->shm_lpid = virtual_id(about->shm_lpid);
    }
    return result;
}

CAIRN_EXPORT int msgctl(int id, int command, struct msqid_ds* about) noexcept {
    const int result = next<"msgctl">(&::msgctl)(id, command, about);
    if (result >= 0 && (command == IPC_STAT || command == MSG_STAT || command == MSG_STAT_ANY) &&
        ids_are_virtual()) {
        about->msg_lspid = virtual_id(about->msg_lspid);
        about->msg_lrpid = virtual_id(about->msg_lrpid);
    }
    return result;
}

CAIRN_EXPORT int semctl(int id, int number, int command, ...) noexcept {
    va_list list;
    va_start(list, command);
    auto* argument = va_arg(list, void*);  // union semun is a word
    va_end(list);
    const int result = next<"semctl">(&::semctl)(id, number, command, argument);
    return command == GETPID ? virtual_id(result) : result;
}
