// Which frame or block the kernel fills next, no call tells: it is read off the ring itself. In TPACKET_V3
// each block has the number under which the kernel has begun to fill it, and the highest is the newest. In
// the older versions frames have times, which stay when a frame has been read.
#include "resources/packet/capture_ring.h"

#include <linux/if_packet.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace cairn::capture {
namespace {

constexpr std::uint64_t largest_ring = std::uint64_t{64} << 20;

template <class T>
T value_at(const schema::Bytes& memory, std::size_t at) {
    T value{};
    std::memcpy(&value, memory.data() + at, sizeof value);
    return value;
}

void find_head_of_blocks(const schema::Bytes& memory, schema::PacketRing& ring) {
    std::uint64_t newest = 0;
    for (std::uint32_t i = 0; i < ring.block_count; ++i) {
        const auto block = value_at<tpacket_block_desc>(memory, std::size_t{i} * ring.block_size);
        if (block.hdr.bh1.seq_num < newest) continue;
        newest = block.hdr.bh1.seq_num;
        const bool closed = (block.hdr.bh1.block_status & TP_STATUS_USER) != 0;
        ring.full = closed;
        ring.head = closed ? (i + 1) % ring.block_count : i;
    }
}

struct Frame {
    bool of_program = false;
    std::pair<std::uint32_t, std::uint32_t> time;
};

// A frame never goes over the end of a block.
Frame frame_of(const schema::Bytes& memory, const schema::PacketRing& ring, std::uint32_t number) {
    const std::uint32_t in_block = ring.block_size / ring.frame_size;
    const std::size_t at =
        std::size_t{number / in_block} * ring.block_size + std::size_t{number % in_block} * ring.frame_size;
    if (ring.version == TPACKET_V1) {
        const auto head = value_at<tpacket_hdr>(memory, at);
        return {head.tp_status != TP_STATUS_KERNEL, {head.tp_sec, head.tp_usec}};
    }
    const auto head = value_at<tpacket2_hdr>(memory, at);
    return {head.tp_status != TP_STATUS_KERNEL, {head.tp_sec, head.tp_nsec}};
}

void find_head_of_frames(const schema::Bytes& memory, schema::PacketRing& ring) {
    std::pair<std::uint32_t, std::uint32_t> newest;
    for (std::uint32_t i = 0; i < ring.frame_count; ++i) {
        const Frame frame = frame_of(memory, ring, i);
        if (frame.time < newest || frame.time == std::pair<std::uint32_t, std::uint32_t>()) continue;
        newest = frame.time;
        ring.head = (i + 1) % ring.frame_count;
    }
}

}  // namespace

Result<> describe_ring(const PacketDiagnosis& known, int fd, schema::Object& object) {
    const packet_diag_ring& found = *known.receive_ring;
    schema::PacketRing ring{.version = known.info.pdi_version,
                            .block_size = found.pdr_block_size,
                            .block_count = found.pdr_block_nr,
                            .frame_size = found.pdr_frame_size,
                            .frame_count = found.pdr_frame_nr,
                            .retire_ms = found.pdr_retire_tmo,
                            .private_size = found.pdr_sizeof_priv,
                            .features = found.pdr_features,
                            .reserve = known.info.pdi_reserve,
                            .copy_threshold = known.info.pdi_copy_thresh,
                            .loss = (known.info.pdi_flags & PDI_LOSS) != 0};
    const std::uint64_t size = ring_size(ring);
    if (ring.version > TPACKET_V3 || (known.info.pdi_flags & PDI_VNETHDR) != 0 || size > largest_ring)
        return fail_code(
            ExitCode::refused,
            "is a packet socket with a ring of version {} and {} bytes: what can be saved is one "
            "of versions 0 to 2 (TPACKET_V3) without PACKET_VNET_HDR, of 64 MiB at most",
            ring.version, size);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return fail_errno("is a packet socket whose ring can't be read");
    const auto* bytes = static_cast<const std::uint8_t*>(memory);
    schema::Bytes contents(bytes, bytes + size);
    ::munmap(memory, size);
    if (ring.version == TPACKET_V3)
        find_head_of_blocks(contents, ring);
    else
        find_head_of_frames(contents, ring);
    object.contents.push_back(std::move(contents));
    object.get<schema::Packet>()->ring = ring;
    return {};
}

}  // namespace cairn::capture
