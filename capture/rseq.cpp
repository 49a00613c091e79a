#include "capture/rseq.h"

#include <linux/rseq.h>

#include <cstddef>

namespace cairn::capture {

Result<ptrace::Rseq> rseq_of(const StoppedProcess& process, const StoppedThread& thread) {
    if (const auto told = TRY(ptrace::rseq(thread.tid))) return *told;
    if (process.rseq_tls == 0) return ptrace::Rseq{};
    // Below the thread pointer: the sum wraps around.
    const auto offset = static_cast<std::uint64_t>(std::int64_t{process.rseq_tls});
    const auto area = ProgramAddress(static_cast<std::uint64_t>(thread.registers.fs_base)) + offset;
    // Not a processor's number: libc couldn't register it, or not yet.
    const auto processor =
        ptrace::read_object<std::int32_t>(process.living, area + offsetof(struct rseq, cpu_id));
    if (!processor || *processor < 0) return ptrace::Rseq{};
    constexpr std::uint32_t size = 32;               // the only one that such a kernel takes
    constexpr std::uint32_t signature = 0x53053053;  // RSEQ_SIG of glibc on x86 (<sys/rseq.h>)
    return ptrace::Rseq{area, size, signature, 0};
}

}  // namespace cairn::capture
