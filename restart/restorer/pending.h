// Signals that wait for the process or one of its threads. The blob includes this once.
#pragma once

#include <sys/syscall.h>
#include <time.h>

#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {

constexpr std::uint64_t all_signals = ~0ULL;
constexpr std::int32_t trap_signal = 5;
constexpr std::uint64_t info_size = 128;

inline void queue_signal(Params* params, std::uint64_t info, std::int32_t tid) {
    const long pid = call(SYS_getpid), signal = *at<std::int32_t>(info);
    const long result = tid == 0 ? call(SYS_rt_sigqueueinfo, pid, signal, info)
                                 : call(SYS_rt_tgsigqueueinfo, pid, tid, signal, info);
    must(params, step_pending, result, static_cast<std::uint64_t>(signal));
}

// A thread queues its own: what kill(2), tgkill(2) (pthread_kill) or the kernel has sent, the kernel lets
// nobody queue for another thread (rt_tgsigqueueinfo(2), EPERM). Go's runtime sends such signals all the
// time. SIGTRAP is left to the leader: pending, it would be taken for the trap by which this thread stops.
inline void queue_own(Params* params, const Thread& thread) {
    for (std::uint32_t i = 0; i < thread.pending_count; ++i) {
        const std::uint64_t info = thread.pending + i * info_size;
        if (*at<std::int32_t>(info) != trap_signal) queue_signal(params, info, thread.real_tid);
    }
}

inline void queue_pending(Params* params) {
    const auto* threads = at<Thread>(params->threads);
    for (std::uint32_t i = 0; i < params->pending_count; ++i) {
        const std::uint64_t info = params->pending + i * info_size;
        if (*at<std::int32_t>(info) != trap_signal) queue_signal(params, info, 0);  // the tool's: we trap
    }
    queue_own(params, threads[0]);
    for (std::uint64_t i = 1; i < params->thread_count; ++i)
        for (std::uint32_t k = 0; k < threads[i].pending_count; ++k)
            if (*at<std::int32_t>(threads[i].pending + k * info_size) == trap_signal)
                call(SYS_tgkill, call(SYS_getpid), threads[i].real_tid, trap_signal);  // who sent it is lost
}

inline void drop_pending() {
    const timespec now = {0, 0};
    while (call(SYS_rt_sigtimedwait, &all_signals, nullptr, &now, sizeof all_signals) > 0) {
    }
}

}  // namespace cairn::restart::restorer
