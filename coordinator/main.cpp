// cairn-coordinator: reads its settings, takes the session's lock, serves.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <exception>

#include "common/own_process.h"
#include "common/printable.h"
#include "coordinator/coordinator.h"
#include "coordinator/ended_sessions.h"
#include "coordinator/settings.h"
#include "coordinator/startup.h"

namespace {

using namespace cairn;
using namespace cairn::coordinator;

int complain(const Error& error) {
    std::string text = error.what;
    if (error.number == EFBIG || error.number == ENOMEM || error.number == EMFILE)
        for (const std::string& limit : low_limits()) text += "; " + limit;
    std::fputs(fmt::format("cairn-coordinator: {}\n", printable_lines(text)).c_str(), stderr);
    return static_cast<int>(error.code);
}

// Nothing of whoever happens to start us governs the session. Returns what couldn't be helped.
Result<Surround> prepare_process() {
    Surround surround;
    surround.notes = stand_alone();
    surround.limits = low_limits();
    ::signal(SIGPIPE, SIG_IGN);  // a reader of our output that goes must not end the session's coordinator
    ::signal(SIGTTOU, SIG_IGN);
    tell_own_death("cairn-coordinator");
    // Its own dozen, and a pidfd for each process.
    constexpr rlim_t least = 64;
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < least)
        return fail_code(
            ExitCode::refused,
            "a coordinator can't work with {} open files (ulimit -H -n): it needs {}, and one more "
            "for each process; start it from a shell with a higher limit",
            files.rlim_max, least);
    return surround;
}

int serve(Settings settings, Surround surround) {
    auto session = make_session(settings.session);
    if (!session) return complain({session.error(), 0, ExitCode::refused});
    std::optional<Daemon> daemon;
    if (settings.daemon) {
        // Before the lock is taken: it belongs to the process that serves.
        auto made = Daemon::become(*session, settings.not_ids);
        if (!made) return complain(made.error());
        daemon.emplace(std::move(*made));
    }
    auto lock = lock_session(*session);
    if (!lock) return complain(lock.error());
    if (lock->other) {
        const std::string text =
            fmt::format("session {} is served by coordinator {} already", session->name, lock->other->pid);
        if (!daemon) return complain({text, 0, ExitCode::refused});
        std::fputs((text + "\n").c_str(), stderr);
        return 0;
    }
    // For a day it can be read what became of a session's checkpoints.
    remove_ended_sessions(*session, std::chrono::hours(24));
    auto region = RegionFile::open(*session);
    if (!region) return complain(region.error());
    Console::Kind kind = Console::Kind::pipe;
    if (daemon)
        kind = Console::Kind::log;
    else if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1)
        kind = Console::Kind::terminal;

    boost::asio::io_context io(1);
    if (kind == Console::Kind::pipe) std::setvbuf(stdout, nullptr, _IOLBF, 0);
    Coordinator coordinator(io, std::move(settings), std::move(*session), std::move(*region), kind,
                            std::move(surround), std::move(*lock));
    if (Result<> started = coordinator.start(); !started) return complain(started.error());
    if (daemon) daemon->ready();
    io.run();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    auto surround = prepare_process();
    if (!surround) return complain(surround.error());
    try {
        auto settings = read_settings(argc, argv);
        if (!settings) return complain(settings.error());
        if (!*settings) return 0;
        return serve(std::move(**settings), std::move(*surround));
    } catch (const std::exception& problem) {
        // No memory, no descriptor.
        return complain({problem.what(), ENOMEM});
    }
}
