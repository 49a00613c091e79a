// Has a fanotify(7) group say that it has lost events.
#pragma once

#include "common/error.h"

namespace cairn::restart {

// The queue is filled until the kernel itself puts FAN_Q_OVERFLOW at its end, behind which nothing comes as
// long as it is full, and then read but for that: some seconds for the 16,384 events that are usual
// (fs.fanotify.max_queued_events). `fd`: not blocking, with its marks; not of FAN_UNLIMITED_QUEUE.
[[nodiscard]] Result<> tell_of_lost_events_by_fanotify(int fd);

}  // namespace cairn::restart
