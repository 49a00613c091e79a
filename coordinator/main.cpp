// cairn-coordinator: reads its settings, takes the session's lock, serves.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>

#include "coordinator/coordinator.h"
#include "coordinator/settings.h"
#include "coordinator/startup.h"

namespace {

using namespace cairn;
using namespace cairn::coordinator;

int complain(const Error& error) {
    std::fputs(fmt::format("cairn-coordinator: {}\n", error.what).c_str(), stderr);
    return static_cast<int>(error.code);
}

// A pidfd for each process; SIGPIPE when a reader of our output is gone would end the session's coordinator.
void prepare_process() {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGTTOU, SIG_IGN);
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
}

int serve(Settings settings) {
    auto session = make_session(settings.session);
    if (!session) return complain({session.error(), 0, ExitCode::refused});
    std::optional<Daemon> daemon;
    if (settings.daemon) {
        // Before the lock is taken: it belongs to the process that serves.
        auto made = Daemon::become(*session);
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
    auto region = RegionFile::open(*session);
    if (!region) return complain(region.error());
    Console::Kind kind = Console::Kind::pipe;
    if (daemon)
        kind = Console::Kind::log;
    else if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1)
        kind = Console::Kind::terminal;

    boost::asio::io_context io(1);
    if (kind == Console::Kind::pipe) std::setvbuf(stdout, nullptr, _IOLBF, 0);
    Coordinator coordinator(io, std::move(settings), std::move(*session), std::move(*region), kind);
    if (Result<> started = coordinator.start(); !started) return complain(started.error());
    if (daemon) daemon->ready();
    io.run();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    prepare_process();
    auto settings = read_settings(argc, argv);
    if (!settings) return complain(settings.error());
    if (!*settings) return 0;
    return serve(std::move(**settings));
}
