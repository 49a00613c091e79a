// Threads that another process of the computation traces: their tracer takes them from the tool, and each is
// in the stop again in which the tracer has left it (docs/decisions/0024-debuggers.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Every thread of these processes has its registers and its mask, and is traced by the tool. Afterwards those
// that are traced by others have left it.
[[nodiscard]] Result<> hand_over(std::span<const Rebuilding> processes);

// Of a siginfo_t.
[[nodiscard]] inline int signal_of(const schema::Bytes& info) {
    std::int32_t signal = 0;
    std::memcpy(&signal, info.data(), std::min(info.size(), sizeof signal));
    return signal;
}

[[nodiscard]] inline bool is_traced(const Rebuilding& rebuilding, std::size_t thread) {
    return rebuilding.process->threads[thread].tracing.has_value();
}

[[nodiscard]] inline bool is_any_traced(std::span<const Rebuilding> processes) {
    return std::ranges::any_of(processes, [](const Rebuilding& one) {
        return std::ranges::any_of(one.process->threads,
                                   [](const schema::Thread& thread) { return thread.tracing.has_value(); });
    });
}

}  // namespace cairn::restart
