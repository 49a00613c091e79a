// The two pieces of memory that a ring of io_uring(7) shares with the kernel, as both a capture and a restart
// map them: by a descriptor of the ring, which maps the same memory in every process.
#pragma once

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/fd.h"

namespace cairn {

// Of a mapping of a ring in /proc/PID/maps.
inline constexpr std::string_view ring_name = "anon_inode:[io_uring]";

// IORING_MAX_ENTRIES and IORING_MAX_CQ_ENTRIES of io_uring/.
inline constexpr unsigned ring_max_entries = 1 << 15, ring_max_completions = 1 << 16;

// A new ring; `parameters` tells where the kernel keeps what in it. errno is set on failure.
[[nodiscard]] Fd set_up_ring(std::uint32_t entries, std::uint32_t completions, io_uring_params& parameters);

// The offsets in the order in which the kernel's structs have them: equal in two rings that are laid out
// alike.
[[nodiscard]] std::vector<std::uint32_t> ring_offsets(const io_uring_params& parameters);

class RingMemory {
  public:
    RingMemory() = default;
    // `offset`: IORING_OFF_*. errno is set on failure.
    [[nodiscard]] static Result<RingMemory> map(int fd, std::uint64_t offset, std::size_t length);
    RingMemory(const RingMemory&) = delete;
    RingMemory& operator=(const RingMemory&) = delete;
    RingMemory(RingMemory&& other) noexcept;
    RingMemory& operator=(RingMemory&& other) noexcept;
    ~RingMemory();

    [[nodiscard]] std::span<std::uint8_t> bytes() const { return {start_, length_}; }
    [[nodiscard]] std::uint32_t load(std::uint32_t offset) const;
    void store(std::uint32_t offset, std::uint32_t value) const;

  private:
    std::uint8_t* start_ = nullptr;
    std::size_t length_ = 0;
};

// All that the kernel and the program use of the memory at IORING_OFF_SQ_RING, and of that at
// IORING_OFF_SQES.
[[nodiscard]] std::size_t ring_length(const io_uring_params& parameters);
[[nodiscard]] std::size_t requests_length(const io_uring_params& parameters);

}  // namespace cairn
