// With what value a process wants to be told of a message: the kernel shows everything else.
#include <mqueue.h>

#include "common/agent.h"
#include "hijack/next.h"
#include "hijack/resident.h"

using namespace cairn;
using namespace cairn::hijack;

extern "C" [[gnu::visibility("hidden")]] Door cairn_door;

// Noted before the kernel is asked: that it has been is what a capture sees in the kernel.
CAIRN_EXPORT int mq_notify(mqd_t queue, const struct sigevent* event) noexcept {
    const auto function = next<"mq_notify">(&::mq_notify);
    if (region() == nullptr || event == nullptr) return function(queue, event);
    AgentNotification* place = &cairn_door.notifications[0];
    for (AgentNotification& each : cairn_door.notifications)
        if (each.used != 0 && each.queue == queue) {
            place = &each;
            break;
        } else if (each.used == 0) {
            place = &each;
        }
    const AgentNotification before = *place;
    *place = {1, queue, event->sigev_notify, event->sigev_signo,
              reinterpret_cast<std::uint64_t>(event->sigev_value.sival_ptr)};
    const int result = function(queue, event);
    if (result != 0) *place = before;
    return result;
}
