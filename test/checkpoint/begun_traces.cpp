// A process that begins to trace another one, and leaves it again, all the time: also when a checkpoint or a
// restart is just letting both go.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "support.h"

int main() {
    const pid_t traced = fork();
    if (traced == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    std::atomic<unsigned> begun = 0;
    std::atomic<bool> over = false, asked = false;
    // By a thread of its own: a tracer is a thread.
    std::thread tracer([&] {
        for (; !over; ++begun) {
            // Only one can trace it, the witness or this one.
            while (test::is_watched() && !asked && !over) test::nap(20);
            if (over) break;
            CHECK(ptrace(PTRACE_SEIZE, traced, 0, 0) == 0);
            CHECK(ptrace(PTRACE_INTERRUPT, traced, 0, 0) == 0);
            int status = 0;
            CHECK(waitpid(traced, &status, __WALL) == traced && WIFSTOPPED(status));
            CHECK(ptrace(PTRACE_DETACH, traced, 0, 0) == 0);
        }
    });
    test::serve([&](bool last) {
        const unsigned before = begun;
        asked = true;
        for (int i = 0; begun < before + 50; ++i) {
            test::nap(1);
            CHECK(i < 20'000);
        }
        asked = false;
        if (!last) return;
        over = true;
        tracer.join();
        CHECK(kill(traced, SIGKILL) == 0 && waitpid(traced, nullptr, 0) == traced);
    });
}
