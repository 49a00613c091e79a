// Where a thread notes when a call with a relative timeout began: see TimingNote in common/region.h.
#pragma once

#include <time.h>

#include <cstdint>

#include "common/region.h"

namespace cairn::hijack {

extern thread_local constinit TimingNote timing_note;

// CPU time that this thread had used before a restart, ns: see CpuBase in common/agent.h.
extern thread_local constinit std::int64_t thread_cpu_base;
std::int64_t thread_cpu_base_offset();  // from the thread pointer

// From the thread pointer to the calling thread's note; the same in every thread.
std::int64_t timing_note_offset();

// Stands around one call. A signal handler that interrupts it and sleeps itself puts the note back as it was.
// If the thread is cancelled inside, or leaves by longjmp, the note stays: a capture believes it only while
// the thread is in this very system call with a timeout, and each such call writes a note of its own.
class Noted {
  public:
    // length_ns negative: no timeout, or none that a note is needed for
    Noted(long call, std::int64_t length_ns) : before_(timing_note) {
        if (length_ns < 0) {
            timing_note = {};
            return;
        }
        struct timespec now = {};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        timing_note = {.began_ns = nanoseconds(now),
                       .length_ns = length_ns,
                       .call = static_cast<std::int32_t>(call),
                       .call_frame = 0};
    }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;
    ~Noted() { timing_note = before_; }

    // Longer than this (some 200 years) is for ever, and would not fit.
    static constexpr std::int64_t longest_s = 6'000'000'000;

    static std::int64_t nanoseconds(const struct timespec& time) {
        if (time.tv_sec < 0 || time.tv_sec > longest_s || time.tv_nsec < 0 || time.tv_nsec > 999'999'999)
            return -1;
        return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    }
    static std::int64_t nanoseconds(const struct timespec* time) {
        return time == nullptr ? -1 : nanoseconds(*time);
    }
    static std::int64_t milliseconds(std::int64_t count) { return count < 0 ? -1 : count * 1'000'000; }

  private:
    TimingNote before_;
};

}  // namespace cairn::hijack
