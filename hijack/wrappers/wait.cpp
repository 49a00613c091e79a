// Waiting for children: by their virtual ids, told their virtual ids. Each calls libc's function, which is a
// cancellation point.
#include <sys/resource.h>
#include <sys/wait.h>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/trace_notes.h"

using namespace cairn::hijack;

extern "C" pid_t __wait(int*);
extern "C" pid_t __waitpid(pid_t, int*, int);

CAIRN_EXPORT pid_t wait(int* status) {
    return told(next<"wait">(&::wait)(status), status);
}

CAIRN_EXPORT pid_t __wait(int* status) {
    return wait(status);
}

CAIRN_EXPORT pid_t waitpid(pid_t pid, int* status, int options) {
    return told(next<"waitpid">(&::waitpid)(real_pid_or_group(pid), status, options), status);
}

CAIRN_EXPORT pid_t __waitpid(pid_t pid, int* status, int options) {
    return waitpid(pid, status, options);
}

CAIRN_EXPORT pid_t wait3(int* status, int options, struct rusage* usage) noexcept {
    return told(next<"wait3">(&::wait3)(status, options, usage), status);
}

CAIRN_EXPORT pid_t wait4(pid_t pid, int* status, int options, struct rusage* usage) noexcept {
    return told(next<"wait4">(&::wait4)(real_pid_or_group(pid), status, options, usage), status);
}

CAIRN_EXPORT int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
    if (type == P_PID || type == P_PGID) id = static_cast<id_t>(real_id(static_cast<pid_t>(id)));
    const int result = next<"waitid">(&::waitid)(type, id, info, options);
    if (result == 0) told(info, options);
    return result;
}
