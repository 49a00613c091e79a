#include "restart/terminal/relay.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <vector>

namespace cairn::restart {
namespace {

constexpr std::size_t most =
    64 * 1024;  // carried at once in one direction; a reader that is slower holds the writer up
constexpr int hung_up_poll_ms = 50;  // all slaves closed: poll would return at once for ever

constexpr int background_poll_ms =
    300;  // nobody tells a job that goes on running that it has the terminal now

sigset_t signal_set(std::initializer_list<int> signals) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : signals) ::sigaddset(&set, signal);
    return set;
}

// SIGCHLD is the watcher's; SIGTTIN stops a background job that reads, as it should.
sigset_t all_but_children() {
    sigset_t set;
    ::sigfillset(&set);
    ::sigdelset(&set, SIGCHLD);
    ::sigdelset(&set, SIGTTIN);
    return set;
}

struct SignalMask {
    explicit SignalMask(const sigset_t& signals) : set(signals) {
        ::pthread_sigmask(SIG_BLOCK, &set, &before);
    }
    SignalMask(const SignalMask&) = delete;
    SignalMask& operator=(const SignalMask&) = delete;
    ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t set{}, before{};
};

template <class T>
std::optional<T> from_bytes(const schema::Bytes& bytes) {
    T value{};
    if (bytes.size() != sizeof value) return std::nullopt;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

// As cfmakeraw(3).
termios2 raw_of(termios2 settings) {
    settings.c_iflag &=
        ~static_cast<tcflag_t>(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    settings.c_cflag = (settings.c_cflag & ~static_cast<tcflag_t>(CSIZE | PARENB)) | CS8;
    settings.c_cc[VMIN] = 1;
    settings.c_cc[VTIME] = 0;
    return settings;
}

// Bytes on their way in one direction.
class Channel {
  public:
    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    [[nodiscard]] bool full() const { return bytes_.size() >= most; }
    void put(char byte) { bytes_.push_back(byte); }

    // As read(2): 0 at the end, -1 with errno.
    ssize_t fill(int from) {
        std::array<char, 4096> piece;
        const ssize_t got = ::read(from, piece.data(), piece.size());
        if (got > 0) bytes_.insert(bytes_.end(), piece.begin(), piece.begin() + got);
        return got;
    }
    // The outer descriptor is shared with the shell and so can't be made non-blocking: little at a time,
    // after a poll.
    ssize_t drain(int to) {
        const ssize_t put = ::write(to, bytes_.data(), std::min<std::size_t>(bytes_.size(), 1024));
        if (put > 0) bytes_.erase(bytes_.begin(), bytes_.begin() + put);
        return put;
    }
    void drop() { bytes_.clear(); }

  private:
    std::vector<char> bytes_;
};

}  // namespace

struct Relay::State {
    int in = -1, out = -1;
    Fd master, slave;
    std::optional<termios2> outer;  // settings to be put back; none: `in` is no terminal
    bool raw = false;

    // A background job lets the terminal be: what is typed there is the shell's.
    [[nodiscard]] bool in_background() const { return outer && ::tcgetpgrp(in) != ::getpgrp(); }
    void enter_raw() {
        if (!outer || raw || in_background()) return;
        // Whoever had the terminal meanwhile (the shell) may have left other settings: these are to be put
        // back.
        termios2 now{};
        if (::ioctl(in, TCGETS2, &now) == 0) outer = now;
        const termios2 settings = raw_of(*outer);
        raw = ::ioctl(in, TCSETSW2, &settings) == 0;
    }
    void leave_raw() {
        if (!raw) return;
        // Also from the background: then SIGTTOU would stop us.
        const SignalMask no_stop(signal_set({SIGTTOU}));
        ::ioctl(in, TCSETSW2, &*outer);
        raw = false;
    }
    void copy_size() const {
        winsize size{};
        // The kernel sends SIGWINCH to the inner foreground group if it has changed.
        if (outer && ::ioctl(in, TIOCGWINSZ, &size) == 0) ::ioctl(master.get(), TIOCSWINSZ, &size);
    }
};

Relay::Relay(std::unique_ptr<State> state) : state_(std::move(state)) {}
Relay::Relay(Relay&&) noexcept = default;
Relay& Relay::operator=(Relay&&) noexcept = default;
Relay::~Relay() {
    if (state_) state_->leave_raw();
}

Result<Relay> Relay::create(int in, int out, const schema::Bytes& termios, const schema::Bytes& size) {
    auto state = std::make_unique<State>();
    state->in = in;
    state->out = out;
    state->master.reset(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!state->master) return fail_errno("/dev/ptmx: no pseudo-terminal");
    int unlock = 0;
    if (::ioctl(state->master.get(), TIOCSPTLCK, &unlock) != 0)
        return fail_errno("pseudo-terminal: TIOCSPTLCK");
    state->slave.reset(::ioctl(state->master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!state->slave) return fail_errno("pseudo-terminal: TIOCGPTPEER");
    auto settings = from_bytes<termios2>(termios);
    termios2 outer{};
    if (::ioctl(in, TCGETS2, &outer) == 0) {
        state->outer = outer;
        if (!settings) settings = outer;
        state->copy_size();
    } else if (const auto window = from_bytes<winsize>(size)) {
        ::ioctl(state->master.get(), TIOCSWINSZ, &*window);
    }
    if (settings && ::ioctl(state->slave.get(), TCSETS2, &*settings) != 0)
        return fail_errno("pseudo-terminal: settings");
    return Relay(std::move(state));
}

int Relay::slave() const {
    return state_->slave.get();
}

void Relay::close_slave() {
    state_->slave.reset();
}

Result<Relay::End> Relay::run(const Watcher& watcher) {
    State& state = *state_;
    const SignalMask mask(watcher.signalled
                              ? all_but_children()
                              : signal_set({SIGWINCH, SIGHUP, SIGTERM, SIGINT, SIGCONT, SIGTSTP}));
    const Fd signals(::signalfd(-1, &mask.set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals) return fail_errno("signalfd");
    state.enter_raw();
    state.copy_size();

    Channel typed, printed;
    bool in_open = true, out_open = true, finishing = false;
    for (;;) {
        const bool room_for_print = !printed.full();
        enum { outer_in, outer_out, inner, signal, watched };
        std::array<pollfd, 5> polled{};
        const bool background = state.in_background();
        if (!background) state.enter_raw();
        polled[outer_in] = {in_open && !background && !typed.full() ? state.in : -1, POLLIN, 0};
        polled[outer_out] = {printed.empty() ? -1 : state.out, POLLOUT, 0};
        polled[inner] = {state.master.get(),
                         static_cast<short>((room_for_print ? POLLIN : 0) | (typed.empty() ? 0 : POLLOUT)),
                         0};
        polled[signal] = {signals.get(), POLLIN, 0};
        polled[watched] = {finishing ? -1 : watcher.fd, POLLIN, 0};
        const int patience = finishing ? 0 : background ? background_poll_ms : -1;
        if (::poll(polled.data(), polled.size(), patience) < 0 && errno != EINTR) return fail_errno("poll");

        signalfd_siginfo info{};
        while (::read(signals.get(), &info, sizeof info) == sizeof info) {
            if (info.ssi_signo == SIGWINCH) state.copy_size();
            const auto number = static_cast<int>(info.ssi_signo);
            const bool own = number == SIGWINCH || number == SIGTSTP || number == SIGCONT;
            if (!own && (!watcher.signalled || watcher.signalled(info))) {
                state.leave_raw();
                // Closing the master is what a hang-up is: SIGHUP and SIGCONT to the inner session.
                state.master.reset();
                return number == SIGHUP ? End::hung_up : End::terminated;
            }
            // kill(1): a Ctrl-Z typed here is the inner session's. Who stops the job wants his terminal as it
            // was.
            if (info.ssi_signo == SIGTSTP) {
                state.leave_raw();
                ::kill(::getpid(), SIGSTOP);
            }
            // Somebody stopped us for a while: the settings are the shell's again.
            if (info.ssi_signo == SIGCONT) {
                state.enter_raw();
                state.copy_size();
            }
        }

        bool carried = false;
        if (polled[inner].revents & POLLIN) carried = printed.fill(state.master.get()) > 0;
        if ((polled[inner].revents & POLLOUT) && !typed.empty()) typed.drain(state.master.get());
        if (polled[outer_out].revents != 0) {
            const ssize_t put = printed.drain(state.out);
            carried = carried || put > 0;
            // Nobody reads what is printed any more; the programs needn't know, as with a closed window.
            if (put < 0 && errno != EAGAIN && errno != EINTR) out_open = false;
        }
        if (!out_open) printed.drop();
        if (polled[outer_in].revents != 0) {
            const ssize_t got = typed.fill(state.in);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                in_open = false;
                termios2 inside{};
                // A pipe or a file has ended: typed as whoever sits at a terminal would type it.
                if (got == 0 && ::ioctl(state.master.get(), TCGETS2, &inside) == 0 &&
                    (inside.c_lflag & ICANON))
                    typed.put(static_cast<char>(inside.c_cc[VEOF]));
            }
        }
        if (polled[watched].revents != 0) {
            const Next next = watcher.ready();
            if (next == Next::finish) {
                finishing = true;
                continue;
            }
            if (next == Next::suspend) {
                state.leave_raw();
                ::kill(::getpid(), SIGSTOP);
                state.enter_raw();
                state.copy_size();
                if (watcher.resumed) watcher.resumed();
            }
        }
        if (finishing && !carried && printed.empty()) {
            state.leave_raw();
            return End::finished;
        }
        // No slave is open: the kernel says so at once, each time; one may be opened again (/dev/tty).
        if ((polled[inner].revents & POLLHUP) && !(polled[inner].revents & POLLIN) && !carried &&
            !finishing) {
            std::array<pollfd, 3> others{polled[outer_in], polled[signal], polled[watched]};
            ::poll(others.data(), others.size(), hung_up_poll_ms);
        }
    }
}

}  // namespace cairn::restart
