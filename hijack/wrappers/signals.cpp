// Signals: who sent them.
#include <signal.h>
#include <sys/syscall.h>

#include "hijack/next.h"
#include "hijack/resident.h"
#include "hijack/timing.h"

using namespace cairn::hijack;

CAIRN_EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* info, const struct timespec* timeout) {
    auto* real = next<"sigtimedwait">(&::sigtimedwait);
    if (region() == nullptr) return real(set, info, timeout);
    const Noted note(SYS_rt_sigtimedwait, Noted::nanoseconds(timeout));
    return real(set, info, timeout);
}
