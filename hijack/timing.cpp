#include "hijack/timing.h"

namespace cairn::hijack {

thread_local constinit TimingNote timing_note = {};

thread_local constinit std::int64_t thread_cpu_base = 0;

std::int64_t thread_cpu_base_offset() {
    return reinterpret_cast<char*>(&thread_cpu_base) - static_cast<char*>(__builtin_thread_pointer());
}

std::int64_t timing_note_offset() {
    return reinterpret_cast<char*>(&timing_note) - static_cast<char*>(__builtin_thread_pointer());
}

}  // namespace cairn::hijack
