#include "restart/terminal/outer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "common/proc.h"

namespace cairn::restart {
namespace {

constexpr std::array ending = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

Fd open_own_terminal() {
    return Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
}

// /dev/tty means "mine" to whoever opens it, and stays what it is called; the others need the terminal by its
// name (device numbers: Documentation/admin-guide/devices.txt).
std::string name_of_own_terminal() {
    const auto stat = proc::stat(::getpid());
    if (!stat || stat->tty_nr == 0) return "";
    const auto device = static_cast<dev_t>(static_cast<unsigned>(stat->tty_nr));
    const auto major = gnu_dev_major(device), minor = gnu_dev_minor(device);
    constexpr unsigned console = 4, first_serial = 64, first_pty = 136, last_pty = 143;
    if (major >= first_pty && major <= last_pty)
        return fmt::format("/dev/pts/{}", (major - first_pty) * 256 + minor);
    if (major == console)
        return minor < first_serial ? fmt::format("/dev/tty{}", minor)
                                    : fmt::format("/dev/ttyS{}", minor - first_serial);
    return "";
}

// A session leader that lets go of its terminal sends SIGHUP to the foreground group, which is us.
void give_up_terminal(int terminal) {
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGHUP, &ignore, &before);
    ::ioctl(terminal, TIOCNOTTY);
    ::sigaction(SIGHUP, &before, nullptr);
}

}  // namespace

bool take_as_controlling(int terminal, const schema::Process& process) {
    if (::ioctl(terminal, TIOCSCTTY, 0) == 0) return true;
    const std::string why = std::strerror(errno);
    const char* name = ::ttyname(terminal);
    fmt::print(stderr, "cairn restart: {} doesn't become the controlling terminal of session {} ({}): {}\n",
               name == nullptr ? "a terminal" : name, process.sid, process.name, why);
    return false;
}

Result<OuterTerminal> OuterTerminal::choose(const schema::Object* image, bool leader_is_ours) {
    OuterTerminal outer;
    if (image == nullptr) return outer;
    Fd own = open_own_terminal();
    Fd named(own ? ::open(name_of_own_terminal().c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC) : -1);
    if (own) outer.foreground_ = ::tcgetpgrp(own.get()) == ::getpgrp();
    if (!leader_is_ours) {
        outer.shared_ = true;
        outer.terminal_ = std::move(named);
        return outer;
    }
    if (own && named && ::getsid(0) == ::getpid()) {
        give_up_terminal(own.get());
        outer.foreground_ = true;
        outer.terminal_ = std::move(named);
        return outer;
    }
    auto relay = Relay::create(0, 1, image->termios, image->winsize);
    if (!relay) return std::unexpected(std::move(relay.error()).in("terminal for the restored session"));
    outer.relay_.emplace(std::move(*relay));
    outer.foreground_ = true;
    return outer;
}

int OuterTerminal::fd() const {
    return relay_ ? relay_->slave() : terminal_.get();
}

// The program was stopped from the terminal: the shell that started the restart has to see its own job stop.
// When it continues us, the terminal is ours again and we hand it on.
void OuterTerminal::follow_stop(pid_t child) {
    const pid_t group = ::getpgid(child);
    const bool had_terminal = terminal_ && ::tcgetpgrp(terminal_.get()) == group;
    ::kill(0, SIGSTOP);
    if (had_terminal && foreground_) {
        sigset_t block, before;
        sigemptyset(&block);
        sigaddset(&block, SIGTTOU);
        ::sigprocmask(SIG_BLOCK, &block, &before);
        if (::tcgetpgrp(terminal_.get()) == ::getpgrp()) ::tcsetpgrp(terminal_.get(), group);
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
    }
    ::kill(-group, SIGCONT);
}

bool OuterTerminal::reap(pid_t first, const Ended& ended) {
    for (;;) {
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, WNOHANG | (shared_ ? WUNTRACED : 0));
        if (pid == 0) return true;
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return false;
        if (WIFSTOPPED(status)) {
            if (pid == first) follow_stop(pid);
            continue;
        }
        ended(pid, status);
        if (pid == first) result_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

Result<int> OuterTerminal::stay(pid_t first, const Ended& ended) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    if (!relay_) {
        terminal_.reset(shared_ ? terminal_.release() : -1);
        // Whoever wants to end or stop the job knows the tool only: the shell's `kill %1`, a hang-up.
        for (const int signal : ending) sigaddset(&set, signal);
        if (shared_) sigaddset(&set, SIGTSTP);  // the stop of the programs comes back to us (follow_stop)
        ::sigprocmask(SIG_BLOCK, &set, nullptr);
        while (reap(first, ended)) {
            int signal = 0;
            ::sigwait(&set, &signal);
            if (signal != SIGCHLD)
                if (const pid_t group = ::getpgid(first); group > 0 && group != ::getpgrp())
                    ::kill(-group, signal);
        }
        return result_;
    }
    relay_->close_slave();
    const Fd children(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!children) return fail_errno("signalfd");
    Relay::Watcher watcher;
    watcher.fd = children.get();
    watcher.ready = [&] {
        signalfd_siginfo info;
        while (::read(children.get(), &info, sizeof info) > 0) {
        }
        return reap(first, ended) ? Relay::Next::go_on : Relay::Next::finish;
    };
    auto end = relay_->run(watcher);
    if (!end) return std::unexpected(std::move(end.error()));
    relay_.reset();  // hangs up what is left
    while (reap(first, ended)) ::usleep(1000);
    return result_;
}

}  // namespace cairn::restart
