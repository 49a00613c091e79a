// eventfd(2): made empty, and given its count.
#include <sys/eventfd.h>

#include "resources/restore/opening.h"

namespace cairn::restart {

Result<Fd> open_eventfd(Opening&, const schema::Object&, const schema::Eventfd& saved) {
    Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | (saved.semaphore ? EFD_SEMAPHORE : 0)));
    if (!event) return fail_errno("eventfd");
    if (saved.count != 0 && ::write(event.get(), &saved.count, sizeof saved.count) != sizeof saved.count)
        return fail_errno("eventfd: count {}", saved.count);
    return event;
}

}  // namespace cairn::restart
