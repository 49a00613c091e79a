// Packet sockets with a ring (PACKET_RX_RING) of all three versions, as tcpdump has one: the kernel and the
// program go on at the same place of it, and what the program had not read is there; also in a ring that is
// full.
// ci: exact
// narrow: none
// root: packet sockets are for who has CAP_NET_RAW
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "own_links.h"

namespace {

constexpr std::uint16_t ours = 0x88b6;  // IEEE 802's second local experimental EtherType
constexpr unsigned block_size = 8192, blocks = 4, frame_size = 2048, frames = 16, packet_size = 1200;

sockaddr_ll loopback() {
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(ours);
    name.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    name.sll_halen = 6;
    return name;
}

struct Packet {
    std::uint32_t group, number;
    char rest[packet_size - 8];
};

class Ring {
  public:
    Ring(int version, std::uint32_t group)
        : version_(version), group_(group), fd_(socket(AF_PACKET, SOCK_DGRAM, 0)) {
        if (fd_ < 0) test::skip("packet sockets are not allowed");
        test::set_option(fd_, SOL_PACKET, PACKET_VERSION, version);
        tpacket_req3 ring{block_size, blocks, frame_size, frames, 20, 0, 0};
        CHECK(setsockopt(fd_, SOL_PACKET, PACKET_RX_RING, &ring,
                         version == TPACKET_V3 ? sizeof ring : sizeof(tpacket_req)) == 0);
        void* memory = mmap(nullptr, block_size * blocks, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        CHECK(memory != MAP_FAILED);
        memory_ = static_cast<char*>(memory);
        const sockaddr_ll name = loopback();
        CHECK(bind(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    }

    // The numbers of those of its own group.
    std::vector<std::uint32_t> read_all(int patience_ms) {
        std::vector<std::uint32_t> numbers;
        pollfd polled{fd_, POLLIN, 0};
        for (;;) {
            if (version_ == TPACKET_V3 ? read_block(numbers) : read_frame(numbers)) continue;
            if (poll(&polled, 1, patience_ms) <= 0) return numbers;
        }
    }

    [[nodiscard]] unsigned next() const { return next_; }

  private:
    void take(const char* data, std::vector<std::uint32_t>& numbers) const {
        Packet packet;
        std::memcpy(&packet, data, sizeof packet);
        if (packet.group == group_) numbers.push_back(packet.number);
    }

    bool read_block(std::vector<std::uint32_t>& numbers) {
        char* const at = memory_ + std::size_t{next_} * block_size;
        auto& block = reinterpret_cast<tpacket_block_desc*>(at)->hdr.bh1;
        if ((__atomic_load_n(&block.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) return false;
        char* packet = at + block.offset_to_first_pkt;
        for (std::uint32_t i = 0; i < block.num_pkts; ++i) {
            const auto* head = reinterpret_cast<tpacket3_hdr*>(packet);
            take(packet + head->tp_net, numbers);
            packet += head->tp_next_offset;
        }
        __atomic_store_n(&block.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        next_ = (next_ + 1) % blocks;
        return true;
    }

    template <class Head>
    bool read_frame_of(std::vector<std::uint32_t>& numbers) {
        constexpr unsigned in_block = block_size / frame_size;
        char* const at = memory_ + std::size_t{next_ / in_block} * block_size + next_ % in_block * frame_size;
        auto* head = reinterpret_cast<Head*>(at);
        if ((__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) return false;
        take(at + head->tp_net, numbers);
        __atomic_store_n(&head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        next_ = (next_ + 1) % frames;
        return true;
    }
    bool read_frame(std::vector<std::uint32_t>& numbers) {
        return version_ == TPACKET_V1 ? read_frame_of<tpacket_hdr>(numbers)
                                      : read_frame_of<tpacket2_hdr>(numbers);
    }

    int version_;
    std::uint32_t group_;
    int fd_;
    char* memory_ = nullptr;
    unsigned next_ = 0;
};

void send_to(std::uint32_t group, std::uint32_t first, std::uint32_t count) {
    static const int sender = socket(AF_PACKET, SOCK_DGRAM, 0);
    const sockaddr_ll name = loopback();
    for (std::uint32_t i = 0; i < count; ++i) {
        Packet packet{group, first + i, {}};
        CHECK(sendto(sender, &packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&name),
                     sizeof name) == sizeof packet);
    }
    test::nap(60);  // a block that isn't full is the program's after 20 ms
}

std::vector<std::uint32_t> numbers(std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(first + i);
    return all;
}

test::Check ring_of(int version) {
    static std::uint32_t groups = static_cast<std::uint32_t>(getpid()) << 8;
    const std::uint32_t group = ++groups;
    const auto ring = std::make_shared<Ring>(version, group);
    const std::uint32_t few = 5;
    send_to(group, 0, few);
    CHECK(ring->read_all(0) == numbers(0, few));
    send_to(group, few, few);
    return [=, sent = 2 * few](bool) mutable {
        CHECK(ring->read_all(0) == numbers(sent - few, few));
        for (int i = 0; i < 3; ++i, sent += few) {
            send_to(group, sent, few);
            CHECK(ring->read_all(0) == numbers(sent, few));
        }
        send_to(group, sent, few);
        sent += few;
    };
}

// What has no place in it is dropped.
test::Check full_ring_of(int version) {
    static std::uint32_t groups = (static_cast<std::uint32_t>(getpid()) << 8) + 128;
    const std::uint32_t group = ++groups;
    const auto ring = std::make_shared<Ring>(version, group);
    const std::uint32_t few = 5, many = 64;
    send_to(group, 0, few);
    CHECK(ring->read_all(0) == numbers(0, few));
    send_to(group, few, many);
    return [=, sent = few](bool) mutable {
        const auto all = ring->read_all(0);
        CHECK(all.size() >= 8 && all.size() < many &&
              all == numbers(sent, static_cast<std::uint32_t>(all.size())));
        sent += many;
        send_to(group, sent, few);
        CHECK(ring->read_all(0) == numbers(sent, few));
        sent += few;
        send_to(group, sent, many);
    };
}

}  // namespace

int main() {
    own_links::be_alone_if_watched();
    test::serve({{"version 1", [] { return ring_of(TPACKET_V1); }},
                 {"version 2", [] { return ring_of(TPACKET_V2); }},
                 {"version 3", [] { return ring_of(TPACKET_V3); }},
                 {"version 1, full", [] { return full_ring_of(TPACKET_V1); }},
                 {"version 2, full", [] { return full_ring_of(TPACKET_V2); }},
                 {"version 3, full", [] { return full_ring_of(TPACKET_V3); }}});
}
