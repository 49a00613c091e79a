#include "cli/job/coordinator.h"

#include <cstdio>

#include "common/human.h"
#include "common/layout.h"

namespace cairn::job {

Result<> start_coordinator(const Coordinator& wish) {
    Words words{own_program("cairn"),
                "coordinator",
                "--daemon",
                "--auto",
                "--linger",
                "60",
                "--session",
                wish.session,
                "--ckptdir",
                wish.folder,
                "--interval",
                fmt::format("{}", wish.interval),
                "--keep",
                std::to_string(wish.keep)};
    words.insert(words.end(), wish.more.begin(), wish.more.end());
    const Ended started = TRY(run_command(words, std::chrono::seconds(60), Errors::taken));
    if (started.code != 0) return fail("{}", printable_lines(started.out));
    return {};
}

Result<Ended> save_and_end(const std::string& session) {
    return run_command({own_program("cairn"), "checkpoint", "--kill", "--quiet", "--session", session},
                       std::chrono::hours(12));
}

void quit_coordinator(const std::string& session) {
    static_cast<void>(
        run_command({own_program("cairn"), "quit", "--session", session}, std::chrono::seconds(20)));
}

sigset_t handled_signals() {
    sigset_t set;
    ::sigfillset(&set);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
        ::sigdelset(&set, number);
    return set;
}

void say(const std::string& text) {
    fmt::print(stderr, "cairn: {}\n", printable(text));
}

}  // namespace cairn::job
