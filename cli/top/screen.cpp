#include "cli/top/screen.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace cairn::top {
namespace {

// ECMA-48, and two of DEC's that every terminal of today has: another screen, whose end brings back what was
// there before, and lines that don't go on in the next one.
constexpr std::string_view begin_drawing = "\033[?1049h\033[?25l\033[?7l";
constexpr std::string_view end_drawing = "\033[?7h\033[?25h\033[?1049l";

bool write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(STDOUT_FILENO, text.data(), text.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EAGAIN) {
            // Somebody who shares the terminal has set O_NONBLOCK.
            pollfd one{STDOUT_FILENO, POLLOUT, 0};
            ::poll(&one, 1, -1);
            continue;
        }
        if (done <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(done));
    }
    return true;
}

std::string_view sequence_of(Style style, bool colours) {
    switch (style) {
        case Style::plain:
            return "";
        case Style::title:
            return "\033[1m";
        case Style::head:
            return "\033[7m";
        case Style::good:
            return colours ? "\033[32m" : "";
        case Style::bad:
            return colours ? "\033[31m" : "\033[1m";
        case Style::dim:
            return "\033[2m";
    }
    return "";
}

using Sequence = std::pair<std::string_view, Key>;
constexpr std::array sequences = {
    Sequence{"\033[A", Key::up},   Sequence{"\033OA", Key::up},       Sequence{"\033[B", Key::down},
    Sequence{"\033OB", Key::down}, Sequence{"\033[5~", Key::page_up}, Sequence{"\033[6~", Key::page_down},
    Sequence{"\033[H", Key::home}, Sequence{"\033OH", Key::home},     Sequence{"\033[1~", Key::home},
    Sequence{"\033[F", Key::end},  Sequence{"\033OF", Key::end},      Sequence{"\033[4~", Key::end},
    Sequence{"q", Key::quit},      Sequence{"h", Key::help},          Sequence{"?", Key::help},
    Sequence{"s", Key::sort},      Sequence{"c", Key::checkpoint},    Sequence{" ", Key::again},
    Sequence{"k", Key::up},        Sequence{"j", Key::down},          Sequence{"\x04", Key::quit}};

// What the text begins with, and how much of it that is; 0: more has to come.
std::pair<Key, std::size_t> first_key(std::string_view text) {
    bool begun = false;
    for (const auto& [sequence, key] : sequences) {
        if (text.starts_with(sequence)) return {key, sequence.size()};
        begun = begun || sequence.starts_with(text);
    }
    return {Key::none, begun ? 0 : 1};
}

}  // namespace

bool Screen::possible() {
    const char* kind = std::getenv("TERM");
    return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && *kind != '\0' &&
           std::string_view(kind) != "dumb";
}

Screen::Screen() {
    const char* no_colour = std::getenv("NO_COLOR");
    colours_ = no_colour == nullptr || *no_colour == '\0';
    enter();
}

void Screen::enter() {
    if (std::exchange(entered_, true)) return;
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    // Ctrl-C and Ctrl-Z do what they do elsewhere.
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    shown_.clear();
    (void)write_all(begin_drawing);
}

void Screen::leave() {
    if (!std::exchange(entered_, false)) return;
    (void)write_all(end_drawing);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

void Screen::measure(View& view) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
    if (size.ws_row > 0) view.rows = size.ws_row;
    if (size.ws_col > 0) view.columns = size.ws_col;
}

bool Screen::draw(const std::vector<Line>& lines, bool anew) {
    if (anew) shown_.clear();
    std::string text = anew ? "\033[2J" : "";
    shown_.resize(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto& line = lines[i];
        const auto style = sequence_of(line.style, colours_);
        std::string drawn = fmt::format("{}{}{}", style, line.text, style.empty() ? "" : "\033[0m");
        if (!anew && drawn == shown_[i]) continue;
        text += fmt::format("\033[{};1H\033[2K{}", i + 1, drawn);
        shown_[i] = std::move(drawn);
    }
    return text.empty() || write_all(text);
}

bool Screen::read_keys(std::vector<Key>& keys) {
    std::array<char, 256> buffer{};
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0) return errno == EINTR || errno == EAGAIN;
    if (size == 0) {
        pollfd one{STDIN_FILENO, POLLIN, 0};
        return ::poll(&one, 1, 0) < 1 || (one.revents & (POLLHUP | POLLERR)) == 0;
    }
    typed_.append(buffer.data(), static_cast<std::size_t>(size));
    while (!typed_.empty()) {
        const auto [key, length] = first_key(typed_);
        if (length == 0) break;
        if (key != Key::none) keys.push_back(key);
        typed_.erase(0, length);
    }
    return true;
}

}  // namespace cairn::top
