#include "resources/io_uring/schema_ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace cairn {

Fd set_up_ring(std::uint32_t entries, std::uint32_t completions, io_uring_params& parameters) {
    parameters = {};
    parameters.flags = IORING_SETUP_CQSIZE;
    parameters.cq_entries = completions;
    return Fd(static_cast<int>(::syscall(SYS_io_uring_setup, entries, &parameters)));
}

std::vector<std::uint32_t> ring_offsets(const io_uring_params& parameters) {
    const auto& sq = parameters.sq_off;
    const auto& cq = parameters.cq_off;
    return {sq.head, sq.tail, sq.ring_mask, sq.ring_entries, sq.flags,    sq.dropped, sq.array,
            cq.head, cq.tail, cq.ring_mask, cq.ring_entries, cq.overflow, cq.cqes,    cq.flags};
}

std::size_t ring_length(const io_uring_params& parameters) {
    return std::max(parameters.cq_off.cqes + std::size_t{parameters.cq_entries} * sizeof(io_uring_cqe),
                    parameters.sq_off.array + std::size_t{parameters.sq_entries} * sizeof(std::uint32_t));
}

std::size_t requests_length(const io_uring_params& parameters) {
    return std::size_t{parameters.sq_entries} * sizeof(io_uring_sqe);
}

Result<RingMemory> RingMemory::map(int fd, std::uint64_t offset, std::size_t length) {
    void* const at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                            static_cast<off_t>(offset));
    if (at == MAP_FAILED) return fail_errno("io_uring: its memory can't be mapped");
    RingMemory memory;
    memory.start_ = static_cast<std::uint8_t*>(at);
    memory.length_ = length;
    return memory;
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), length_(std::exchange(other.length_, 0)) {}

RingMemory& RingMemory::operator=(RingMemory&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(length_, other.length_);
    return *this;
}

RingMemory::~RingMemory() {
    if (start_ != nullptr) ::munmap(start_, length_);
}

std::uint32_t RingMemory::load(std::uint32_t offset) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(start_ + offset))
        .load(std::memory_order_acquire);
}

void RingMemory::store(std::uint32_t offset, std::uint32_t value) const {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(start_ + offset))
        .store(value, std::memory_order_release);
}

}  // namespace cairn
