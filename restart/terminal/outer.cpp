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

#include <cerrno>
#include <cstring>

#include "common/printable.h"
#include "common/proc.h"
#include "restart/tell.h"

namespace cairn::restart {
namespace {

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
    tell("cairn restart: {} doesn't become the controlling terminal of session {} ({}): {}\n",
         name == nullptr ? "a terminal" : name, process.sid, printable(process.name), why);
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
    const schema::TerminalState& state = *schema::terminal_in(image->what);
    auto relay = Relay::create(0, 1, state.termios, state.winsize);
    if (!relay) return std::unexpected(std::move(relay.error()).in("terminal for the restored session"));
    outer.relay_.emplace(std::move(*relay));
    outer.foreground_ = true;
    return outer;
}

int OuterTerminal::fd() const {
    return relay_ ? relay_->slave() : terminal_.get();
}

void OuterTerminal::hand_over(pid_t group) const {
    if (terminal_ && shared_ && group > 1 && group != ::getpgrp() &&
        ::tcgetpgrp(terminal_.get()) == ::getpgrp())
        ::tcsetpgrp(terminal_.get(), group);  // SIGTTOU is blocked
}

// The programs' group was the foreground and has gone: a script that goes on behind us has to have the
// terminal again. (A shell with job control takes it.)
void OuterTerminal::take_back() const {
    if (!terminal_ || !foreground_) return;
    const pid_t group = ::tcgetpgrp(terminal_.get());
    if (group > 1 && group != ::getpgrp() && ::kill(-group, 0) != 0 && errno == ESRCH)
        ::tcsetpgrp(terminal_.get(), ::getpgrp());
}

// The program was stopped. If it was from the terminal, or a shell has this restart for a job, that shell has
// to see its own job stop; when it continues us, the terminal is ours again and is handed on. Elsewhere
// nobody would continue us.
void OuterTerminal::follow_stop(pid_t child, int signal) {
    const pid_t group = ::getpgid(child), own = ::getpgrp(), parent = ::getppid();
    const pid_t foreground = terminal_ ? ::tcgetpgrp(terminal_.get()) : -1;
    if ((signal == SIGTTIN || signal == SIGTTOU) && foreground == own && group != own) {
        // The shell has given the job the terminal without a word (`fg` of what runs).
        hand_over(group);
        ::kill(-group, SIGCONT);
        return;
    }
    if (foreground > 0 && foreground == group && group != own)
        ::kill(0, SIGSTOP);  // Ctrl-Z has stopped the program's group, and the shell waits for all of ours
    else if (::getsid(parent) == ::getsid(0) && ::getpgid(parent) != own)
        ::raise(SIGSTOP);
    else
        return;
    if (foreground == group) hand_over(group);
}

bool OuterTerminal::reap(pid_t first, const Ended& ended) {
    for (;;) {
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, WNOHANG | (relay_ ? 0 : WUNTRACED));
        if (pid == 0) return true;
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return false;
        if (WIFSTOPPED(status)) {
            if (pid == first) follow_stop(pid, WSTOPSIG(status));
            continue;
        }
        ended(pid, status);
        if (pid == first) result_ = status;
    }
}

Result<> OuterTerminal::carry(pid_t first, Deputy& deputy, const Ended& ended) {
    relay_->close_slave();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const Fd children(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!children) return fail_errno("signalfd");
    // Who reads in the background is to be stopped.
    sigemptyset(&set);
    sigaddset(&set, SIGTTIN);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    Relay::Watcher watcher;
    watcher.fd = children.get();
    watcher.ready = [&] {
        signalfd_siginfo info;
        while (::read(children.get(), &info, sizeof info) > 0) {
        }
        return reap(first, ended) ? Relay::Next::go_on : Relay::Next::finish;
    };
    watcher.signalled = [&deputy](const signalfd_siginfo& info) {
        const Sent sent{static_cast<int>(info.ssi_signo), info.ssi_code, static_cast<pid_t>(info.ssi_pid),
                        sigval{.sival_ptr = reinterpret_cast<void*>(info.ssi_ptr)}};
        const bool to_group = deputy.sent_to_group(sent);
        // The real terminal has gone, and so goes the inner one: its session hears of it from that.
        if (sent.number == SIGHUP && (to_group || sent.code == SI_KERNEL)) return !deputy.ignores(SIGHUP);
        deputy.pass_on(sent, to_group);
        return false;
    };
    CHECK_OK(relay_->run(watcher));
    relay_.reset();  // hangs up what is left
    return {};
}

Result<int> OuterTerminal::stay(pid_t first, Deputy& deputy, const Ended& ended) {
    const auto forget = [&](pid_t child, int status) {
        deputy.forget(child);
        ended(child, status);
    };
    if (relay_) CHECK_OK(carry(first, deputy, forget));
    terminal_.reset(shared_ ? terminal_.release() : -1);
    // `fg` has given us the terminal. The program has to have it before it goes on: else it may read first,
    // and be stopped by SIGTTIN once more, which looks like Ctrl-Z by the time at which we hear of it.
    const auto before = [&](int number) {
        if (number == SIGCONT) hand_over(::getpgid(first));
    };
    while (reap(first, forget)) deputy.take_one(before);
    take_back();
    return result_;
}

}  // namespace cairn::restart
