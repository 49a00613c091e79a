#include "causality/trace_tail.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cairn::causality {
namespace {

// The reader is another process, which looks when this one is dead: what matters is that a store isn't moved
// before those it is to come behind.
void in_order() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

std::optional<TraceTail> TraceTail::create(int fd, Process process, std::size_t room) {
    const std::size_t payload = sizeof(TailState) + room;
    const std::size_t size = sizeof(TraceHeader) + sizeof(BlockHeader) + payload;
    // Its pages are there from now on: a disk that is full later doesn't kill the program.
    if (::posix_fallocate(fd, 0, static_cast<off_t>(size)) != 0) return std::nullopt;
    void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        static_cast<void>(::ftruncate(fd, sizeof(TraceHeader)) == 0);
        return std::nullopt;
    }
    TraceTail tail(static_cast<std::uint8_t*>(map), size);
    BlockHeader header{.type = BlockType::tail, .process = process};
    header.bytes = static_cast<std::uint32_t>(payload);
    header.checksum = checksum_of(header);
    std::memcpy(tail.map_ + sizeof(TraceHeader), &header, sizeof header);
    return tail;
}

TraceTail::~TraceTail() {
    if (map_ != nullptr) ::munmap(map_, size_);
}

void TraceTail::append(std::span<const std::uint8_t> event) {
    std::uint8_t* events = reinterpret_cast<std::uint8_t*>(&state() + 1);
    if (events + bytes_ + event.size() > map_ + size_) return;  // larger than any event: none is behind it
    std::memcpy(events + bytes_, event.data(), event.size());
    bytes_ += static_cast<std::uint32_t>(event.size());
    ++count_;
    in_order();
    state().fill = std::uint64_t{count_} << 32 | bytes_;
}

void TraceTail::rewrite_end(std::span<const std::uint8_t> bytes) {
    std::uint8_t* events = reinterpret_cast<std::uint8_t*>(&state() + 1);
    if (bytes.size() > bytes_) return;
    std::memcpy(events + bytes_ - bytes.size(), bytes.data(), bytes.size());
}

void TraceTail::restart(std::uint64_t first) {
    bytes_ = count_ = 0;
    state().fill = 0;
    in_order();
    state().first = first;
}

void TraceTail::enter(const Event& event, std::span<const std::uint32_t> requests, bool any) {
    TailState& to = state();
    to.stands = 0;
    in_order();
    to.kind = static_cast<std::uint8_t>(event.kind);
    to.shape = static_cast<std::uint8_t>(event.shape);
    to.flags = event.flags;
    to.any = any ? 1 : 0;
    to.peer = event.peer;
    to.communicator = event.communicator;
    to.tag = event.tag;
    to.place = event.place;
    to.time = event.time;
    const std::size_t fit = std::min<std::size_t>(requests.size(), TailState::most_requests);
    to.requests = static_cast<std::uint32_t>(fit);
    std::copy_n(requests.begin(), fit, to.request);
    in_order();
    to.stands = 1;
}

void TraceTail::leave() {
    state().stands = 0;
}

std::optional<TailContent> read_tail(std::span<const std::uint8_t> payload) {
    TailState state;
    if (payload.size() < sizeof state) return std::nullopt;
    std::memcpy(&state, payload.data(), sizeof state);
    TailContent content{.first = state.first,
                        .count = static_cast<std::uint32_t>(state.fill >> 32),
                        .bytes = static_cast<std::uint32_t>(state.fill),
                        .offset = sizeof state,
                        .standing = {}};
    if (content.bytes > payload.size() - sizeof state || state.requests > TailState::most_requests ||
        content.first > none || content.count > most_block_events)
        return std::nullopt;
    if (state.stands != 0) {
        Standing& standing = content.standing.emplace();
        standing.event.kind = static_cast<Kind>(state.kind);
        standing.event.shape = static_cast<Shape>(state.shape);
        standing.event.flags = state.flags;
        standing.event.peer = state.peer;
        standing.event.communicator = state.communicator;
        standing.event.tag = state.tag;
        standing.event.place = state.place;
        standing.event.time = state.time;
        standing.any = state.any != 0;
        standing.requests.assign(state.request, state.request + state.requests);
    }
    return content;
}

}  // namespace cairn::causality
