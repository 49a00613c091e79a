#include "hijack/timing.h"

namespace cairn::hijack {

thread_local constinit TimingNote timing_note = {};

std::int64_t timing_note_offset() {
    return reinterpret_cast<char*>(&timing_note) - static_cast<char*>(__builtin_thread_pointer());
}

}  // namespace cairn::hijack
