// The part of a trace's file that is written through memory: the events that aren't in a block yet, and the
// call that the process is in. A process that is killed leaves both behind, since the kernel keeps what was
// written there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "causality/trace_format.h"

namespace cairn::causality {

class TraceTail {
  public:
    // Of a file that has nothing but its header: makes the block, with room for so many bytes of events.
    // Nothing where the file can't be mapped; then the file is as it was.
    [[nodiscard]] static std::optional<TraceTail> create(int fd, Process process, std::size_t room);
    // All of the block, its header included.
    [[nodiscard]] std::size_t bytes() const { return size_ - sizeof(TraceHeader); }

    // These bytes are one more event.
    void append(std::span<const std::uint8_t> event);
    // The last bytes of the last event have become these.
    void rewrite_end(std::span<const std::uint8_t> bytes);
    // All events are in blocks; the next one has this position.
    void restart(std::uint64_t first);
    // Where the process stands, until leave(). Its place, and more requests than fit, are the caller's
    // affair.
    void enter(const Event& event, std::span<const std::uint32_t> requests, bool any);
    void leave();

    TraceTail(TraceTail&& other) noexcept
        : map_(other.map_), size_(other.size_), bytes_(other.bytes_), count_(other.count_) {
        other.map_ = nullptr;
    }
    TraceTail& operator=(TraceTail&& other) noexcept {
        std::swap(map_, other.map_);
        std::swap(size_, other.size_);
        std::swap(bytes_, other.bytes_);
        std::swap(count_, other.count_);
        return *this;
    }
    TraceTail(const TraceTail&) = delete;
    TraceTail& operator=(const TraceTail&) = delete;
    ~TraceTail();

  private:
    TraceTail(std::uint8_t* map, std::size_t size) : map_(map), size_(size) {}
    [[nodiscard]] TailState& state() const {
        return *reinterpret_cast<TailState*>(map_ + sizeof(TraceHeader) + sizeof(BlockHeader));
    }

    std::uint8_t* map_;
    std::size_t size_;
    std::uint32_t bytes_ = 0, count_ = 0;
};

// What a tail says.
struct TailContent {
    std::uint64_t first = 0;
    std::uint32_t count = 0, bytes = 0;
    std::uint64_t offset = 0;  // of the events in the block's payload
    std::optional<Standing> standing;
};
// Nothing: these bytes are none.
[[nodiscard]] std::optional<TailContent> read_tail(std::span<const std::uint8_t> payload);

}  // namespace cairn::causality
