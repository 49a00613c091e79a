#include "hijack/threads.h"

#include <atomic>

#include "hijack/ids.h"
#include "hijack/lookup.h"

namespace cairn::hijack {
namespace {

// libthread_db's description of the field: bits, number, offset in the block.
std::uint32_t tid_offset() {
    static constinit std::atomic<std::uint32_t> known = 0;
    std::uint32_t offset = known.load(std::memory_order_relaxed);
    if (offset == 0) {
        const auto* field = static_cast<const std::uint32_t*>(find_behind_us("_thread_db_pthread_tid"));
        if (field == nullptr || field[0] != 32) return 0;
        offset = field[2];
        known.store(offset, std::memory_order_relaxed);
    }
    return offset;
}

}  // namespace

std::int32_t* tid_in_block(pthread_t thread) {
    const std::uint32_t offset = tid_offset();
    return offset == 0 ? nullptr : reinterpret_cast<std::int32_t*>(thread + offset);
}

void write_own_tid(ProgramId tid) {
    if (std::int32_t* place = tid_in_block(::pthread_self()))
        __atomic_store_n(place, tid.number(), __ATOMIC_RELAXED);
}

KernelId differing_kernel_tid(pthread_t thread) {
    if (!ids_are_virtual()) return {};
    const std::int32_t* place = tid_in_block(thread);
    const ProgramId tid(place == nullptr ? 0 : __atomic_load_n(place, __ATOMIC_RELAXED));
    if (!tid.known()) return {};
    const KernelId kernel = bound_to(region()->ids, tid);
    return same_number(tid, kernel) ? KernelId() : kernel;
}

KernelId differing_kernel_tid_of_other(pthread_t thread) {
    return thread == ::pthread_self() ? KernelId() : differing_kernel_tid(thread);
}

std::size_t size_of_block() {
    const auto* size = static_cast<const std::uint32_t*>(find_behind_us("_thread_db_sizeof_pthread"));
    return size == nullptr ? 0 : *size;
}

}  // namespace cairn::hijack
