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
#include <span>
#include <vector>

namespace cairn::restart {
namespace {

// Carried at once in one direction; a reader that is slower holds the writer up.
constexpr std::size_t most = 64 * 1024;
// All slaves are closed: poll would return at once for ever.
constexpr int hung_up_poll_ms = 50;
// Nobody tells a job that goes on running that it has the terminal now.
constexpr int background_poll_ms = 300;

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

// What is on its way, and which ends are still open.
struct Traffic {
    Channel typed, printed;
    bool in_open = true, out_open = true;
    bool finishing = false;  // the watcher has said so
};

// What is polled.
enum { outer_in, outer_out, inner, signal_arrived, watcher_ready, polled_count };

bool is_real_error(ssize_t result) {
    return result < 0 && errno != EAGAIN && errno != EINTR;
}

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
    // The programs have been stopped from the terminal: this process stops too, until somebody continues it.
    void suspend() {
        leave_raw();
        ::kill(::getpid(), SIGSTOP);
        enter_raw();
        copy_size();
    }

    [[nodiscard]] std::array<pollfd, polled_count> what_to_poll(const Traffic& traffic, int signals,
                                                                int watched, bool background) const;
    // Its end, if one of them says so.
    [[nodiscard]] std::optional<End> take_signals(int signals, const Watcher& watcher);
    // True if anything that the programs have printed came nearer to its reader.
    [[nodiscard]] bool carry(std::span<const pollfd> polled, Traffic& traffic) const;
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

std::array<pollfd, polled_count> Relay::State::what_to_poll(const Traffic& traffic, int signals, int watched,
                                                            bool background) const {
    const bool room = !traffic.printed.full();
    std::array<pollfd, polled_count> polled{};
    polled[outer_in] = {traffic.in_open && !background && !traffic.typed.full() ? in : -1, POLLIN, 0};
    polled[outer_out] = {traffic.printed.empty() ? -1 : out, POLLOUT, 0};
    polled[inner] = {master.get(),
                     static_cast<short>((room ? POLLIN : 0) | (traffic.typed.empty() ? 0 : POLLOUT)), 0};
    polled[signal_arrived] = {signals, POLLIN, 0};
    polled[watcher_ready] = {traffic.finishing ? -1 : watched, POLLIN, 0};
    return polled;
}

std::optional<Relay::End> Relay::State::take_signals(int signals, const Watcher& watcher) {
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info) {
        const auto number = static_cast<int>(info.ssi_signo);
        if (number == SIGWINCH) copy_size();
        const bool own = number == SIGWINCH || number == SIGTSTP || number == SIGCONT;
        if (!own && (!watcher.signalled || watcher.signalled(info))) {
            leave_raw();
            // Closing the master is what a hang-up is: SIGHUP and SIGCONT to the inner session.
            master.reset();
            return number == SIGHUP ? End::hung_up : End::terminated;
        }
        // kill(1): a Ctrl-Z typed here is the inner session's. Who stops the job wants his terminal as it
        // was.
        if (number == SIGTSTP) {
            leave_raw();
            ::kill(::getpid(), SIGSTOP);
        }
        // Somebody stopped us for a while: the settings are the shell's again.
        if (number == SIGCONT) {
            enter_raw();
            copy_size();
        }
    }
    return {};
}

bool Relay::State::carry(std::span<const pollfd> polled, Traffic& traffic) const {
    bool carried = false;
    if (polled[inner].revents & POLLIN) carried = traffic.printed.fill(master.get()) > 0;
    if ((polled[inner].revents & POLLOUT) && !traffic.typed.empty()) traffic.typed.drain(master.get());
    if (polled[outer_out].revents != 0) {
        const ssize_t put = traffic.printed.drain(out);
        carried = carried || put > 0;
        // Nobody reads what is printed any more; the programs needn't know, as with a closed window.
        if (is_real_error(put)) traffic.out_open = false;
    }
    if (!traffic.out_open) traffic.printed.drop();
    if (polled[outer_in].revents == 0) return carried;
    const ssize_t got = traffic.typed.fill(in);
    if (got != 0 && !is_real_error(got)) return carried;
    traffic.in_open = false;
    termios2 inside{};
    // A pipe or a file has ended: typed as whoever sits at a terminal would type it.
    if (got == 0 && ::ioctl(master.get(), TCGETS2, &inside) == 0 && (inside.c_lflag & ICANON))
        traffic.typed.put(static_cast<char>(inside.c_cc[VEOF]));
    return carried;
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

    Traffic traffic;
    for (;;) {
        const bool background = state.in_background();
        if (!background) state.enter_raw();
        auto polled = state.what_to_poll(traffic, signals.get(), watcher.fd, background);
        const int patience = traffic.finishing ? 0 : background ? background_poll_ms : -1;
        if (::poll(polled.data(), polled.size(), patience) < 0 && errno != EINTR) return fail_errno("poll");
        if (const auto end = state.take_signals(signals.get(), watcher)) return *end;
        const bool carried = state.carry(polled, traffic);
        if (polled[watcher_ready].revents != 0) {
            const Next next = watcher.ready();
            if (next == Next::finish) {
                traffic.finishing = true;
                continue;
            }
            if (next == Next::suspend) {
                state.suspend();
                if (watcher.resumed) watcher.resumed();
            }
        }
        if (traffic.finishing && !carried && traffic.printed.empty()) {
            state.leave_raw();
            return End::finished;
        }
        // No slave is open: the kernel says so at once, each time; one may be opened again (/dev/tty).
        if ((polled[inner].revents & POLLHUP) && !(polled[inner].revents & POLLIN) && !carried &&
            !traffic.finishing) {
            std::array<pollfd, 3> others{polled[outer_in], polled[signal_arrived], polled[watcher_ready]};
            ::poll(others.data(), others.size(), hung_up_poll_ms);
        }
    }
}

}  // namespace cairn::restart
