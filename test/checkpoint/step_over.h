// Instructions that a program of this folder has had forbidden to itself: SIGSEGV steps over them.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <atomic>

#include "support.h"

namespace test {

inline std::atomic<int> stepped_over = 0;

// From now on; of instructions with two bytes (rdtsc, cpuid).
inline void step_over_forbidden() {
    struct sigaction step_over {};
    step_over.sa_flags = SA_SIGINFO;
    step_over.sa_sigaction = [](int, siginfo_t*, void* context) {
        stepped_over = stepped_over + 1;
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 2;
    };
    CHECK(sigaction(SIGSEGV, &step_over, nullptr) == 0);
}

}  // namespace test
