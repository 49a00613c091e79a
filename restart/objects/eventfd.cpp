#include <sys/eventfd.h>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {

Result<Fd> open_eventfd(const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    const bool semaphore = schema::number<bool>(extra, "semaphore");
    Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | (semaphore ? EFD_SEMAPHORE : 0)));
    if (!event) return fail_errno("eventfd");
    const auto count = schema::number<std::uint64_t>(extra, "count");
    if (count != 0 && ::write(event.get(), &count, sizeof count) != sizeof count)
        return fail_errno("eventfd: count {}", count);
    return event;
}

}  // namespace cairn::restart
