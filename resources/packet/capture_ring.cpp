// Which frame or block the kernel fills next, no call tells: it is read off the ring itself. In TPACKET_V3
// each block has the number under which the kernel has begun to fill it, and the highest is the newest. In
// the older versions frames have times, which stay when a frame has been read.
#include "resources/packet/capture_ring.h"

#include <linux/if_packet.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

namespace cairn::capture {
namespace {

constexpr std::uint64_t largest_ring = std::uint64_t{64} << 20;

template <class T>
T load_shared(const T& shared) {
    return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}

// Where the statuses of frames or blocks stand: the kernel writes them while they are read here.
struct Place {
    std::size_t at = 0;
    std::uint64_t status = 0;
    std::pair<std::uint64_t, std::uint64_t> age;  // the higher, the newer; a block's number or a frame's time

    bool operator==(const Place&) const = default;
};

Place block_at(const std::uint8_t* memory, const schema::PacketRing& ring, std::uint32_t number) {
    const std::size_t begin = std::size_t{number} * ring.block_size;
    const auto& block = reinterpret_cast<const tpacket_block_desc*>(memory + begin)->hdr.bh1;
    const auto at =
        static_cast<std::size_t>(reinterpret_cast<const std::uint8_t*>(&block.block_status) - memory);
    return {at, load_shared(block.block_status), {load_shared(block.seq_num), 0}};
}

// A frame never goes over the end of a block.
Place frame_at(const std::uint8_t* memory, const schema::PacketRing& ring, std::uint32_t number) {
    const std::uint32_t in_block = ring.block_size / ring.frame_size;
    const std::size_t at =
        std::size_t{number / in_block} * ring.block_size + std::size_t{number % in_block} * ring.frame_size;
    if (ring.version == TPACKET_V1) {
        const auto* head = reinterpret_cast<const tpacket_hdr*>(memory + at);
        return {at, load_shared(head->tp_status), {load_shared(head->tp_sec), load_shared(head->tp_usec)}};
    }
    const auto* head = reinterpret_cast<const tpacket2_hdr*>(memory + at);
    return {at, load_shared(head->tp_status), {load_shared(head->tp_sec), load_shared(head->tp_nsec)}};
}

using Places = std::vector<Place>;

Places places_of(const std::uint8_t* memory, const schema::PacketRing& ring) {
    const bool blocks = ring.version == TPACKET_V3;
    Places places;
    for (std::uint32_t i = 0; i < (blocks ? ring.block_count : ring.frame_count); ++i)
        places.push_back(blocks ? block_at(memory, ring, i) : frame_at(memory, ring, i));
    return places;
}

// All at one moment: the kernel may have gone on while they were read.
Result<Places> places_at_once(const std::uint8_t* memory, const schema::PacketRing& ring) {
    Places before = places_of(memory, ring);
    constexpr int most_looks = 10000;
    for (int looks = 0; looks < most_looks; ++looks) {
        Places now = places_of(memory, ring);
        if (now == before) return now;
        before = std::move(now);
    }
    return fail("is a packet socket whose ring gets packets more quickly than its state can be read");
}

void find_head(const Places& places, schema::PacketRing& ring) {
    std::pair<std::uint64_t, std::uint64_t> newest;
    const auto count = static_cast<std::uint32_t>(places.size());
    for (std::uint32_t i = 0; i < count; ++i) {
        if (places[i].age < newest || places[i].age == decltype(newest)()) continue;
        newest = places[i].age;
        const bool filling = ring.version == TPACKET_V3 && (places[i].status & TP_STATUS_USER) == 0;
        ring.full = ring.version == TPACKET_V3 && !filling;
        ring.head = filling ? i : (i + 1) % count;
    }
}

// What the kernel has put into the ring while it was copied comes too late: the program would look for the
// next packet where the head was.
void set_statuses(const Places& places, const schema::PacketRing& ring, schema::Bytes& contents) {
    for (const Place& each : places) {
        const auto narrow = static_cast<std::uint32_t>(each.status);
        if (ring.version == TPACKET_V1)
            std::memcpy(contents.data() + each.at, &each.status, sizeof(tpacket_hdr::tp_status));
        else
            std::memcpy(contents.data() + each.at, &narrow, sizeof narrow);
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
    auto places = places_at_once(bytes, ring);
    schema::Bytes contents(bytes, bytes + size);
    ::munmap(memory, size);
    if (!places) return std::unexpected(std::move(places.error()));
    find_head(*places, ring);
    set_statuses(*places, ring, contents);
    object.contents.push_back(std::move(contents));
    object.get<schema::Packet>()->ring = ring;
    return {};
}

}  // namespace cairn::capture
