// signalfd(2): made with the signals that it had. Which process it tells of is a matter of who reads it.
#include <sys/signalfd.h>

#include <csignal>
#include <cstring>

#include "resources/restore/opening.h"

namespace cairn::restart {

Result<Fd> open_signalfd(Opening&, const schema::Object&, const schema::Signalfd& saved) {
    // The kernel's sigset_t: bit n-1 for signal n; libc's begins with it.
    sigset_t mask;
    ::sigemptyset(&mask);
    std::memcpy(&mask, &saved.mask, sizeof saved.mask);
    Fd signals(::signalfd(-1, &mask, SFD_CLOEXEC));
    if (!signals) return fail_errno("signalfd");
    return signals;
}

}  // namespace cairn::restart
