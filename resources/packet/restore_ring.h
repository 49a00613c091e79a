// The ring of a packet socket made again.
#pragma once

#include "common/error.h"
#include "resources/packet/schema.h"
#include "resources/schema/object.h"

namespace cairn::restart {

// Of a socket that has no protocol and no filter yet. Afterwards it is bound to the loopback interface and
// hears nothing (below), until it has its own place and filter.
[[nodiscard]] Result<> make_ring(int fd, const schema::Object& object, const schema::PacketRing& saved);

// A filter that lets no packet in, until it is replaced or SO_DETACH_FILTER takes it away (socket(7)).
[[nodiscard]] Result<> hear_nothing(int fd);

}  // namespace cairn::restart
