#include "common/terminal_queue.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace cairn {
namespace {

constexpr auto patience = std::chrono::seconds(1);
constexpr int step_ms = 20;

// Settings for a while. TCSETS2 takes effect at once and flushes nothing.
class Settings {
  public:
    explicit Settings(int terminal) : terminal_(terminal) {
        known_ = ::ioctl(terminal, TCGETS2, &before_) == 0;
    }
    Settings(const Settings&) = delete;
    Settings& operator=(const Settings&) = delete;
    ~Settings() {
        if (changed_) ::ioctl(terminal_, TCSETS2, &before_);
    }
    [[nodiscard]] bool known() const { return known_; }
    [[nodiscard]] const termios2& before() const { return before_; }
    [[nodiscard]] bool set(const termios2& settings) {
        changed_ = ::ioctl(terminal_, TCSETS2, &settings) == 0;
        return changed_;
    }

  private:
    int terminal_;
    termios2 before_{};
    bool known_ = false, changed_ = false;
};

// A master's description can't be opened anew, and its flags are the program's: never read or write without
// asking.
bool ready(int fd, short what, int ms) {
    pollfd polled{fd, what, 0};
    return ::poll(&polled, 1, ms) == 1 && (polled.revents & what) != 0;
}

Result<> write_all(int fd, const schema::Bytes& bytes) {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::size_t done = 0;
    while (done < bytes.size()) {
        if (!ready(fd, POLLOUT, step_ms)) {
            if (std::chrono::steady_clock::now() > until)
                return fail("terminal: no room for {} bytes", bytes.size());
            continue;
        }
        // A blocking write of more than there is room for would wait for a reader who stands still.
        const ssize_t put = ::write(fd, bytes.data() + done, std::min<std::size_t>(bytes.size() - done, 256));
        if (put < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("terminal");
        if (put > 0) done += static_cast<std::size_t>(put);
    }
    return {};
}

}  // namespace

Result<schema::Bytes> take_typed(int slave) {
    schema::Bytes bytes;
    Settings settings(slave);
    if (!settings.known()) return bytes;  // hung up
    // What belongs to a line that isn't ended can be read, and counted, only when there are no lines.
    termios2 raw = settings.before();
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (!settings.set(raw)) return fail_errno("terminal: TCSETS2");
    for (;;) {
        std::array<std::uint8_t, 4096> piece;
        const ssize_t got = ::read(slave, piece.data(), piece.size());
        if (got <= 0) return bytes;
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
    }
}

Result<> put_typed(int master, int slave, const schema::Bytes& bytes) {
    if (bytes.empty()) return {};
    Settings settings(slave);
    if (!settings.known()) return fail_errno("terminal: TCGETS2");
    termios2 plain = settings.before();
    plain.c_iflag = 0;
    plain.c_oflag = 0;
    // Echoed, so that its arrival can be told: it goes through a work queue of the kernel's, and the count of
    // what can be read doesn't say so in canonical mode before the line is ended.
    plain.c_lflag = (settings.before().c_lflag & static_cast<tcflag_t>(ICANON)) | static_cast<tcflag_t>(ECHO);
    for (unsigned i = 0; i < NCCS; ++i)
        if (i != VMIN && i != VTIME) plain.c_cc[i] = 0;
    if (!settings.set(plain)) return fail_errno("terminal: TCSETS2");
    CHECK_OK(write_all(master, bytes));
    const auto until = std::chrono::steady_clock::now() + patience;
    std::size_t echoed = 0;
    while (echoed < bytes.size()) {
        if (ready(master, POLLIN, step_ms)) {
            std::array<std::uint8_t, 4096> piece;
            const ssize_t got = ::read(master, piece.data(), piece.size());
            if (got > 0) echoed += static_cast<std::size_t>(got);
        }
        if (std::chrono::steady_clock::now() > until)
            return fail("terminal: {} of {} typed bytes have arrived", echoed, bytes.size());
    }
    return {};
}

Result<schema::Bytes> take_printed(int master) {
    schema::Bytes bytes;
    while (ready(master, POLLIN, 0)) {
        std::array<std::uint8_t, 4096> piece;
        const ssize_t got = ::read(master, piece.data(), piece.size());
        if (got <= 0) break;
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
    }
    return bytes;
}

Result<> put_printed(int master, int slave, const schema::Bytes& bytes) {
    if (bytes.empty()) return {};
    Settings settings(slave);
    if (!settings.known()) return fail_errno("terminal: TCGETS2");
    termios2 plain = settings.before();
    plain.c_oflag = 0;
    if (!settings.set(plain)) return fail_errno("terminal: TCSETS2");
    CHECK_OK(write_all(slave, bytes));
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        // A master's own line discipline holds at most 4095 bytes; the rest waits behind it.
        int arrived = 0;
        const int expected = static_cast<int>(std::min<std::size_t>(bytes.size(), 4095));
        if (::ioctl(master, FIONREAD, &arrived) == 0 && arrived >= expected) return {};
        if (std::chrono::steady_clock::now() > until)
            return fail("terminal: {} of {} printed bytes have arrived", arrived, bytes.size());
        ::poll(nullptr, 0, 1);
    }
}

}  // namespace cairn
