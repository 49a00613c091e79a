// A new ring is filled from its first frame on, but the program reads on where it was. No call says to the
// kernel where to go on. So packets are sent to the socket over the loopback interface until the kernel has
// come to the right place, and then the ring gets the contents that it had: packets that the program had not
// read are there as they were, and the kernel goes on behind them. Any other packet in between would put the
// kernel ahead of the program, which then finds poll(2) ready and nothing to read, for ever: a filter lets in
// only those with the mark of this ring, and none at all afterwards.
#include "resources/packet/restore_ring.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>

#include "common/fd.h"

namespace cairn::restart {
namespace {

// IEEE 802's local experimental EtherType. Others may use it too, another restart of ours among them.
constexpr std::uint16_t experimental = 0x88b5;

using Mark = std::array<std::uint32_t, 2>;  // what a packet of the feeder's begins with, in network order

Result<> attach(int fd, std::span<sock_filter> program) {
    const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
    if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &whole, sizeof whole) != 0)
        return fail_errno("packet socket: filter");
    return {};
}

// Offsets from SKF_NET_OFF on begin behind the link's header, which SOCK_RAW's packets have and SOCK_DGRAM's
// have not.
Result<> hear_only(int fd, const Mark& mark) {
    const auto net = static_cast<std::uint32_t>(SKF_NET_OFF);
    std::array<sock_filter, 6> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, net),
                                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(mark[0]), 0, 3),
                                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, net + sizeof mark[0]),
                                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(mark[1]), 0, 1),
                                        BPF_STMT(BPF_RET | BPF_K, 0xffffffff), BPF_STMT(BPF_RET | BPF_K, 0)}};
    return attach(fd, program);
}

// The memory of a ring, as long as it is needed.
class PacketMemory {
  public:
    PacketMemory(int fd, std::size_t size)
        : memory_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), size_(size) {}
    ~PacketMemory() {
        if (memory_ != MAP_FAILED) ::munmap(memory_, size_);
    }
    PacketMemory(const PacketMemory&) = delete;
    PacketMemory& operator=(const PacketMemory&) = delete;
    [[nodiscard]] std::uint8_t* bytes() const {
        return memory_ == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory_);
    }

  private:
    void* memory_;
    std::size_t size_;
};

// Whom the socket hears for the moment.
class Feeder {
  public:
    static Result<Feeder> begin(int fd) {
        Feeder feeder;
        if (::getrandom(feeder.mark_.data(), sizeof feeder.mark_, 0) != sizeof feeder.mark_)
            return fail_errno("random bytes");
        CHECK_OK(hear_only(fd, feeder.mark_));
        feeder.to_.sll_family = AF_PACKET;
        feeder.to_.sll_protocol = htons(experimental);
        feeder.to_.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
        feeder.to_.sll_halen = 6;
        feeder.socket_.reset(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (!feeder.socket_ || feeder.to_.sll_ifindex == 0) return fail_errno("packet socket on lo");
        if (::bind(fd, reinterpret_cast<const sockaddr*>(&feeder.to_), sizeof feeder.to_) != 0)
            return fail_errno("packet socket: bind to lo");
        return feeder;
    }

    // Until the kernel has put it into the ring.
    Result<> send(std::size_t size, const std::function<bool()>& arrived) {
        data_.resize(size);
        std::memcpy(data_.data(), mark_.data(), sizeof mark_);
        const ssize_t sent = ::sendto(socket_.get(), data_.data(), data_.size(), 0,
                                      reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
        if (sent < 0) return fail_errno("a packet can't be sent over lo (is the interface up?)");
        const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        for (int looks = 0; !arrived(); ++looks) {
            if (looks < 1000) continue;
            if (std::chrono::steady_clock::now() > patience)
                return fail(
                    "packet socket: its ring doesn't get what is sent over lo (is the interface up?)");
            ::usleep(200);
        }
        return {};
    }

  private:
    Fd socket_;
    sockaddr_ll to_{};
    Mark mark_{};
    std::vector<char> data_;
};

template <class T>
T load_shared(const T& shared) {
    return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}
template <class T>
void store_shared(T& shared, T value) {
    __atomic_store_n(&shared, value, __ATOMIC_RELEASE);
}

// Asking for them sets them to 0. The kernel holds the lock of the ring for it, so that what its timer has
// begun to do with a block is done afterwards.
void reset_statistics(int fd) {
    tpacket_stats_v3 counts{};
    socklen_t size = sizeof counts;
    ::getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &counts, &size);
}

// TPACKET_V1 and V2: a status before each frame.
class Frames {
  public:
    Frames(const schema::PacketRing& ring, std::uint8_t* memory) : ring_(ring), memory_(memory) {}

    Result<> advance(Feeder& feeder) const {
        constexpr std::size_t small = 32;
        for (std::uint32_t i = 0; i < ring_.head; ++i)
            CHECK_OK(feeder.send(small, [&] { return (status(i) & TP_STATUS_USER) != 0; }));
        return {};
    }

    void fill(const schema::Bytes& contents) const { std::memcpy(memory_, contents.data(), contents.size()); }

  private:
    [[nodiscard]] std::uint64_t status(std::uint32_t number) const {
        const std::uint32_t in_block = ring_.block_size / ring_.frame_size;
        std::uint8_t* const frame = memory_ + std::size_t{number / in_block} * ring_.block_size +
                                    std::size_t{number % in_block} * ring_.frame_size;
        if (ring_.version == TPACKET_V1) return load_shared(reinterpret_cast<tpacket_hdr*>(frame)->tp_status);
        return load_shared(reinterpret_cast<tpacket2_hdr*>(frame)->tp_status);
    }

    const schema::PacketRing& ring_;
    std::uint8_t* memory_;
};

// TPACKET_V3: a block is closed by the first packet that has no place in it, which is then the next one's.
class Blocks {
  public:
    Blocks(int fd, const schema::PacketRing& ring, std::uint8_t* memory)
        : fd_(fd), ring_(ring), memory_(memory) {}

    // Once around more than is needed: blocks have numbers, and those that are filled from the image have to
    // have lower ones than the kernel's.
    Result<> advance(Feeder& feeder) {
        for (std::uint32_t i = 0; i < ring_.block_count + ring_.head; ++i) CHECK_OK(close(feeder, i, true));
        if (ring_.full) {
            for (std::uint32_t i = 0; i < ring_.block_count; ++i)
                CHECK_OK(close(feeder, ring_.head + i, false));
            return {};
        }
        constexpr int most_tries = 1000;
        for (int tries = 0; tries < most_tries; ++tries) {
            forget_packets(header(ring_.head));
            // An empty block isn't closed by the timer. Did it come before this one was empty?
            reset_statistics(fd_);
            if (!is_closed(ring_.head)) return {};
            for (std::uint32_t i = 0; i < ring_.block_count; ++i)
                CHECK_OK(close(feeder, ring_.head + i, true));
        }
        return fail("packet socket: its ring's timer ({} ms) is quicker than what brings it to its place",
                    ring_.retire_ms);
    }

    void fill(const schema::Bytes& contents) {
        std::uint64_t number = header((ring_.head + ring_.block_count - 1) % ring_.block_count).seq_num;
        if (!ring_.full) number = header(ring_.head).seq_num - 1;
        // From the newest to the oldest. The kernel is filling the one at the head, unless it waits for it.
        const std::uint32_t count = ring_.block_count - (ring_.full ? 0 : 1);
        for (std::uint32_t back = 1; back <= count; ++back, --number) {
            const std::uint32_t block = (ring_.head + ring_.block_count - back) % ring_.block_count;
            const std::size_t at = std::size_t{block} * ring_.block_size;
            std::memcpy(memory_ + at, contents.data() + at, ring_.block_size);
            header(block).seq_num = number;
        }
    }

  private:
    [[nodiscard]] tpacket_hdr_v1& header(std::uint32_t block) const {
        std::uint8_t* const at = memory_ + std::size_t{block} * ring_.block_size;
        return reinterpret_cast<tpacket_block_desc*>(at)->hdr.bh1;
    }

    [[nodiscard]] bool is_closed(std::uint32_t block) const {
        return (load_shared(header(block).block_status) & TP_STATUS_USER) != 0;
    }

    Result<> close(Feeder& feeder, std::uint32_t index, bool give_back) const {
        tpacket_hdr_v1& block = header(index % ring_.block_count);
        const auto closed = [&] { return is_closed(index % ring_.block_count); };
        constexpr std::uint32_t largest = 32768, head = 256;
        const std::uint32_t size = std::min(largest, ring_.block_size / 4 - head);
        while (!closed()) {
            const std::uint32_t before = load_shared(block.num_pkts);
            CHECK_OK(feeder.send(size, [&] { return closed() || load_shared(block.num_pkts) != before; }));
        }
        if (give_back) store_shared(block.block_status, std::uint32_t{TP_STATUS_KERNEL});
        return {};
    }

    // The one that has closed the block before: the kernel counts in the ring itself.
    static void forget_packets(tpacket_hdr_v1& block) {
        auto* const begin = reinterpret_cast<std::uint8_t*>(&block) - offsetof(tpacket_block_desc, hdr);
        for (std::uint32_t left = load_shared(block.num_pkts); left > 0; --left) {
            const auto* packet = reinterpret_cast<const tpacket3_hdr*>(begin + block.offset_to_first_pkt);
            block.offset_to_first_pkt += packet->tp_next_offset;
        }
        store_shared(block.num_pkts, 0U);
    }

    int fd_;
    const schema::PacketRing& ring_;
    std::uint8_t* memory_;
};

Result<> ask_for_ring(int fd, const schema::PacketRing& saved) {
    const auto set = [&](int option, std::uint32_t value) {
        const int number = static_cast<int>(value);
        return ::setsockopt(fd, SOL_PACKET, option, &number, sizeof number) == 0;
    };
    if (!set(PACKET_VERSION, saved.version) || !set(PACKET_RESERVE, saved.reserve) ||
        (saved.loss && !set(PACKET_LOSS, 1)) ||
        (saved.copy_threshold != 0 && !set(PACKET_COPY_THRESH, saved.copy_threshold)))
        return fail_errno("packet socket: options of its ring");
    tpacket_req3 ring{};
    ring.tp_block_size = saved.block_size;
    ring.tp_block_nr = saved.block_count;
    ring.tp_frame_size = saved.frame_size;
    ring.tp_frame_nr = saved.frame_count;
    ring.tp_retire_blk_tov = saved.retire_ms;
    ring.tp_sizeof_priv = saved.private_size;
    ring.tp_feature_req_word = saved.features;
    const auto size = static_cast<socklen_t>(saved.version == TPACKET_V3 ? sizeof ring : sizeof(tpacket_req));
    if (::setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, size) != 0)
        return fail_errno("packet socket: a ring of {} blocks of {} bytes", saved.block_count,
                          saved.block_size);
    return {};
}

template <class Part>
Result<> bring_back(Part part, int fd, const schema::Bytes& contents) {
    {
        auto feeder = TRY(Feeder::begin(fd));
        CHECK_OK(part.advance(feeder));
    }
    CHECK_OK(hear_nothing(fd));
    part.fill(contents);
    // What was sent meanwhile isn't in its statistics.
    reset_statistics(fd);
    return {};
}

}  // namespace

Result<> hear_nothing(int fd) {
    std::array<sock_filter, 1> program{{BPF_STMT(BPF_RET | BPF_K, 0)}};
    return attach(fd, program);
}

Result<> make_ring(int fd, const schema::Object& object, const schema::PacketRing& saved) {
    const std::size_t size = std::size_t{saved.block_size} * saved.block_count;
    const bool whole = object.contents.size() == 1 && object.contents.front().size() == size;
    const bool v3 = saved.version == TPACKET_V3;
    const std::uint32_t places = v3 ? saved.block_count : saved.frame_count;
    const std::uint64_t frames = std::uint64_t{saved.block_size / saved.frame_size} * saved.block_count;
    if (!whole || saved.head >= places || (!v3 && frames != saved.frame_count))
        return fail_code(ExitCode::damaged, "object {}: the ring of a packet socket", object.id);
    CHECK_OK(ask_for_ring(fd, saved));
    const PacketMemory memory(fd, size);
    if (memory.bytes() == nullptr) return fail_errno("packet socket: its ring can't be mapped");
    const schema::Bytes& contents = object.contents.front();
    return v3 ? bring_back(Blocks(fd, saved, memory.bytes()), fd, contents)
              : bring_back(Frames(saved, memory.bytes()), fd, contents);
}

}  // namespace cairn::restart
