// The ring of a packet socket made again.
#pragma once

#include "common/error.h"
#include "resources/packet/schema.h"
#include "resources/schema/object.h"

namespace cairn::restart {

// Of a socket that has no protocol and no filter yet. Nobody else can have counted on what it receives
// before.
[[nodiscard]] Result<> make_ring(int fd, const schema::Object& object, const schema::PacketRing& saved);

}  // namespace cairn::restart
