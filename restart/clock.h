// CLOCK_MONOTONIC goes on from where it was: after a reboot, or on another host, absolute deadlines that
// programs hold would else be days away (or hours in the past).
#pragma once

#include <cstdint>

#include "common/error.h"
#include "common/schema/manifest.h"

namespace cairn::restart {

enum class Clocks {
    automatic,  // continue if this is another boot or the clock is behind the image's, else leave
    keep,       // always continue: the time between checkpoint and restart has not passed for the programs
    host,       // leave
};

// Puts children of this process into a time namespace (time_namespaces(7), since Linux 5.6) in which the
// monotonic and the boot-time clock go on from the checkpoint's. Needs CAP_SYS_ADMIN; an ordinary user gets a
// user namespace with his own ids in it. Returns what the children's clock is ahead of ours, ns; 0 if it was
// left alone.
[[nodiscard]] Result<std::int64_t> continue_clocks(const schema::Manifest& manifest, Clocks how);

}  // namespace cairn::restart
