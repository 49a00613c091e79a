#include <sys/signalfd.h>

#include <csignal>
#include <cstring>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {

Result<Fd> open_signalfd(const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    // The kernel's sigset_t: bit n-1 for signal n; libc's begins with it.
    const auto bits = schema::number<std::uint64_t>(extra, "mask");
    sigset_t mask;
    ::sigemptyset(&mask);
    std::memcpy(&mask, &bits, sizeof bits);
    Fd signals(::signalfd(-1, &mask, SFD_CLOEXEC));
    if (!signals) return fail_errno("signalfd");
    return signals;
}

}  // namespace cairn::restart
