// System V objects: ids as the programs know them, which ids they use, who used one last, and what SEM_UNDO
// has promised: none of that can be asked of the kernel.
//
// A thread that is stopped between a translation and its call, or between a call and the note of its outcome,
// is stepped over the gap (capture/translation.h). It is stepped to the next system call at the most, so none
// may stand in a gap.
#include "hijack/sysv.h"

#include <sched.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/timing.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

// A call that one of our wrappers has passed on. Somebody may stand between libc's function and the kernel: a
// library that is preloaded behind ours, or that has written a jump over libc's shmat, as UCX does (over
// ours, if it finds that first). He has got the kernel's id from us, and asks by our syscall or shmctl; after
// a restart in between that id is another object's.
class Passed {
  public:
    Passed(IpcKind kind, int id, int kernels);
    Passed(const Passed&) = delete;
    Passed& operator=(const Passed&) = delete;
    ~Passed();

    // What the program calls the object that was passed on as `id`.
    static int name(IpcKind kind, int id) { return is(kind, id) ? now.program : id; }
    // Whether a call by `id` (no_id: for a new one) is one that was passed on.
    static bool is(IpcKind kind, int id) {
        const auto depth = now.frame - reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        return now.kind == kind && now.kernels == id && depth < deepest;
    }
    static constexpr int no_id = -1;

  private:
    // bytes of stack; a wrapper that was left by longjmp or cancellation isn't above us any more
    static constexpr std::uintptr_t deepest = 4096;
    struct Call {
        IpcKind kind = {};
        int program = no_id, kernels = no_id;
        std::uintptr_t frame = 0;
    };
    static thread_local constinit Call now;
    Call before_;
};
thread_local constinit Passed::Call Passed::now;

inline Passed::Passed(IpcKind kind, int id, int kernels) : before_(now) {
    now = {kind, name(kind, id), kernels, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0))};
}
inline Passed::~Passed() {
    now = before_;
}

// Where a call is made. Finding out may take a system call, so it is asked before anything else.
struct Place {
    IpcMap* map = nullptr;  // the session's; null: ids are as the kernel says, and nobody needs to note them
    std::uint64_t space = 0;  // undo_space() of an IPC namespace of the programs' own
};

Place place() {
    if (region() == nullptr) return {};
    const std::uint64_t space = own_ipc();
    return {space == 0 ? &region()->ipc : nullptr, space};
}

IpcMap* session_map() {
    return place().map;
}

int real(IpcMap* map, IpcKind kind, int id) {
    return map != nullptr ? ipc_to_real(*map, kind, Passed::name(kind, id)) : id;
}

int program(IpcMap* map, IpcKind kind, int id) {
    return map != nullptr ? ipc_to_program(*map, kind, id) : id;
}

template <class Get>
int meet(IpcKind kind, Get get) {
    IpcMap* const map = session_map();
    const int id = get();
    return map != nullptr && id >= 0 ? meet_ipc(*map, kind, id) : id;
}

// An id that came by a file, a pipe or an argument, and not by one of our wrappers.
void used(IpcMap* map, IpcKind kind, int id) {
    if (map != nullptr && find_ipc(*map, ipc_key(kind, id)) == nullptr) bind_ipc(*map, kind, id, id);
}

void forget(IpcMap* map, IpcKind kind, int id) {
    if (map != nullptr) forget_ipc(*map, kind, id);
}

bool promises(const struct sembuf* operations, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if ((operations[i].sem_flg & SEM_UNDO) != 0 && operations[i].sem_op != 0) return true;
    return false;
}

template <class Operate>
int operate(int id, const struct sembuf* operations, std::size_t count, Operate call) {
    constexpr std::size_t most = 500;  // SEMOPM: with more the kernel doesn't look at them, nor do we
    const auto [map, space] = place();
    if (region() == nullptr || operations == nullptr || count > most)
        return call(real(map, IpcKind::semaphores, id));
    // The kernel's pid may be another one when the call returns.
    const ProgramId self = program_id(region()->ids, raw::pid());
    // A bad address is the kernel's to find out: looked at only when it has been accepted.
    const int result = call(real(map, IpcKind::semaphores, id));
    if (result != 0) return result;
    used(map, IpcKind::semaphores, id);
    if (!promises(operations, count)) return result;
    for (std::size_t i = 0; i < count; ++i)
        if ((operations[i].sem_flg & SEM_UNDO) != 0)
            promise_undo(region()->ipc, kernel_id(region()->ids, self),
                         undo_key(id, operations[i].sem_num) | space, -operations[i].sem_op);
    return result;
}

// What libc's functions and syscall have in common: `call` gets the kernel's id and asks the kernel.

// A segment that is removed lives until the last has detached it, and so does its id.
template <class Call>
int control_segment(int id, int command, struct shmid_ds* about, Call call) {
    const bool by_index =
        command == SHM_STAT || command == SHM_STAT_ANY || command == SHM_INFO || command == IPC_INFO;
    IpcMap* const map = session_map();
    const int result = call(by_index ? id : real(map, IpcKind::memory, id));
    if (result < 0) return result;
    const bool gives_id = command == SHM_STAT || command == SHM_STAT_ANY;
    if ((command == IPC_STAT || gives_id) && ids_are_virtual()) {
        about->shm_cpid = virtual_id(about->shm_cpid);
        about->shm_lpid = virtual_id(about->shm_lpid);
    }
    return gives_id ? program(map, IpcKind::memory, result) : result;
}

template <class Call>
auto use_queue(int id, Call call) {
    IpcMap* const map = session_map();
    const auto result = call(real(map, IpcKind::messages, id));
    if (result >= 0) used(map, IpcKind::messages, id);
    return result;
}

template <class Call>
int control_queue(int id, int command, struct msqid_ds* about, Call call) {
    const bool by_index =
        command == MSG_STAT || command == MSG_STAT_ANY || command == MSG_INFO || command == IPC_INFO;
    IpcMap* const map = session_map();
    const int result = call(by_index ? id : real(map, IpcKind::messages, id));
    if (result < 0) return result;
    const bool gives_id = command == MSG_STAT || command == MSG_STAT_ANY;
    if ((command == IPC_STAT || gives_id) && ids_are_virtual()) {
        about->msg_lspid = virtual_id(about->msg_lspid);
        about->msg_lrpid = virtual_id(about->msg_lrpid);
    }
    if (command == IPC_RMID) forget(map, IpcKind::messages, id);
    return gives_id ? program(map, IpcKind::messages, result) : result;
}

template <class Call>
int operate_in_time(int id, const struct sembuf* operations, std::size_t count,
                    const struct timespec* timeout, Call call) {
    if (region() == nullptr) return call(id);
    const Noted note(SYS_semtimedop, Noted::nanoseconds(timeout));
    return operate(id, operations, count, call);
}

template <class Call>
int control_semaphores(int id, int number, int command, Call call) {
    if (region() == nullptr) return call(id);
    const bool by_index =
        command == SEM_STAT || command == SEM_STAT_ANY || command == SEM_INFO || command == IPC_INFO;
    const Place here = place();
    IpcMap* const map = here.map;
    const int result = call(by_index ? id : real(map, IpcKind::semaphores, id));
    if (result < 0) return result;
    switch (command) {
        case GETPID:
            return virtual_id(result);
        case SETVAL:
            void_undo(region()->ipc, [key = undo_key(id, static_cast<std::uint32_t>(number)) | here.space](
                                         std::uint64_t semaphore) { return semaphore == key; });
            return result;
        case IPC_RMID:
            forget(map, IpcKind::semaphores, id);
            [[fallthrough]];
        case SETALL:
            void_undo(region()->ipc, [key = undo_key(id, 0) | here.space](std::uint64_t semaphore) {
                return semaphore >> 16 == key >> 16;
            });
            return result;
        case SEM_STAT:
        case SEM_STAT_ANY:
            return program(map, IpcKind::semaphores, result);
        default:
            return result;
    }
}

IpcKind kind_of(long number) {
    switch (number) {
        case SYS_shmget:
        case SYS_shmat:
        case SYS_shmctl:
            return IpcKind::memory;
        case SYS_msgget:
        case SYS_msgsnd:
        case SYS_msgrcv:
        case SYS_msgctl:
            return IpcKind::messages;
        default:
            return IpcKind::semaphores;
    }
}

}  // namespace

CAIRN_EXPORT int shmget(key_t key, std::size_t size, int flags) noexcept {
    return meet(IpcKind::memory, [=] {
        const Passed passed(IpcKind::memory, Passed::no_id, Passed::no_id);
        return next<"shmget">(&::shmget)(key, size, flags);
    });
}

// What is attached is seen in the map of the process.
CAIRN_EXPORT void* shmat(int id, const void* address, int flags) noexcept {
    const int kernels = real(session_map(), IpcKind::memory, id);
    const Passed passed(IpcKind::memory, id, kernels);
    return next<"shmat">(&::shmat)(kernels, address, flags);
}

CAIRN_EXPORT int shmctl(int id, int command, struct shmid_ds* about) noexcept {
    return control_segment(id, command, about, [=](int kernels) {
        const Passed passed(IpcKind::memory, id, kernels);
        return next<"shmctl">(&::shmctl)(kernels, command, about);
    });
}

CAIRN_EXPORT int msgget(key_t key, int flags) noexcept {
    return meet(IpcKind::messages, [=] {
        const Passed passed(IpcKind::messages, Passed::no_id, Passed::no_id);
        return next<"msgget">(&::msgget)(key, flags);
    });
}

CAIRN_EXPORT int msgsnd(int id, const void* message, std::size_t size, int flags) {
    return use_queue(id, [=](int kernels) {
        const Passed passed(IpcKind::messages, id, kernels);
        return next<"msgsnd">(&::msgsnd)(kernels, message, size, flags);
    });
}

CAIRN_EXPORT ssize_t msgrcv(int id, void* message, std::size_t size, long type, int flags) {
    return use_queue(id, [=](int kernels) {
        const Passed passed(IpcKind::messages, id, kernels);
        return next<"msgrcv">(&::msgrcv)(kernels, message, size, type, flags);
    });
}

CAIRN_EXPORT int msgctl(int id, int command, struct msqid_ds* about) noexcept {
    return control_queue(id, command, about, [=](int kernels) {
        const Passed passed(IpcKind::messages, id, kernels);
        return next<"msgctl">(&::msgctl)(kernels, command, about);
    });
}

CAIRN_EXPORT int semget(key_t key, int count, int flags) noexcept {
    return meet(IpcKind::semaphores, [=] {
        const Passed passed(IpcKind::semaphores, Passed::no_id, Passed::no_id);
        return next<"semget">(&::semget)(key, count, flags);
    });
}

CAIRN_EXPORT int semop(int id, struct sembuf* operations, std::size_t count) noexcept {
    return operate(id, operations, count, [=](int kernels) {
        const Passed passed(IpcKind::semaphores, id, kernels);
        return next<"semop">(&::semop)(kernels, operations, count);
    });
}

CAIRN_EXPORT int semtimedop(int id, struct sembuf* operations, std::size_t count,
                            const struct timespec* timeout) noexcept {
    return operate_in_time(id, operations, count, timeout, [=](int kernels) {
        const Passed passed(IpcKind::semaphores, id, kernels);
        return next<"semtimedop">(&::semtimedop)(kernels, operations, count, timeout);
    });
}

CAIRN_EXPORT int semctl(int id, int number, int command, ...) noexcept {
    va_list list;
    va_start(list, command);
    auto* argument = va_arg(list, void*);  // union semun is a word
    va_end(list);
    return control_semaphores(id, number, command, [=](int kernels) {
        const Passed passed(IpcKind::semaphores, id, kernels);
        return next<"semctl">(&::semctl)(kernels, number, command, argument);
    });
}

CAIRN_EXPORT int unshare(int flags) noexcept {
    const int result = next<"unshare">(&::unshare)(flags);
    ipc_may_have_changed();
    return result;
}

CAIRN_EXPORT int setns(int fd, int type) noexcept {
    const int result = next<"setns">(&::setns)(fd, type);
    ipc_may_have_changed();
    return result;
}

long cairn::hijack::system_v_call(long number, long a, long b, long c, long d, long e) {
    const auto call = [=](long first) {
        const long answer = raw::call(number, first, b, c, d, e);
        if (!raw::failed(answer)) return answer;
        errno = static_cast<int>(-answer);
        return -1L;
    };
    const auto get = [=] { return static_cast<int>(call(a)); };
    const auto ask = [=](int kernels) { return static_cast<int>(call(kernels)); };
    const int id = static_cast<int>(a), command = static_cast<int>(b);
    const bool gets = number == SYS_shmget || number == SYS_semget || number == SYS_msgget;
    const IpcKind kind = kind_of(number);
    if (Passed::is(kind, gets ? Passed::no_id : id)) return call(gets ? a : real(session_map(), kind, id));
    const auto* operations = reinterpret_cast<const struct sembuf*>(b);
    const auto count = static_cast<std::size_t>(c);
    switch (number) {
        case SYS_shmget:
        case SYS_semget:
        case SYS_msgget:
            return meet(kind, get);
        case SYS_shmat:
            return call(real(session_map(), IpcKind::memory, id));
        case SYS_shmctl:
            return control_segment(id, command, reinterpret_cast<struct shmid_ds*>(c), ask);
        case SYS_msgsnd:
        case SYS_msgrcv:
            return use_queue(id, [=](int kernels) { return call(kernels); });
        case SYS_msgctl:
            return control_queue(id, command, reinterpret_cast<struct msqid_ds*>(c), ask);
        case SYS_semop:
            return operate(id, operations, count, ask);
        case SYS_semtimedop:
            return operate_in_time(id, operations, count, reinterpret_cast<const struct timespec*>(d), ask);
        default:  // SYS_semctl
            return control_semaphores(id, command, static_cast<int>(c), ask);
    }
}
