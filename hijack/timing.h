// Where a thread notes when a call with a relative timeout began: see TimingNote in common/region.h.
#pragma once

#include <cstdint>

#include "common/region.h"

namespace cairn::hijack {

extern thread_local constinit TimingNote timing_note;

// From the thread pointer to the calling thread's note; the same in every thread.
std::int64_t timing_note_offset();

}  // namespace cairn::hijack
