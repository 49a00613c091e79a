// The ring of a packet socket (packet(7), PACKET_RX_RING), as it stands.
#pragma once

#include "common/error.h"
#include "resources/packet/schema.h"
#include "resources/schema/object.h"
#include "resources/socket/capture_diag.h"

namespace cairn::capture {

// Into the object of the socket, a Packet. The kernel goes on receiving meanwhile.
[[nodiscard]] Result<> describe_ring(const PacketDiagnosis& known, int fd, schema::Object& object);

[[nodiscard]] constexpr std::uint64_t ring_size(const schema::PacketRing& ring) {
    return std::uint64_t{ring.block_size} * ring.block_count;
}

}  // namespace cairn::capture
