#include "cli/control/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/control/text.h"

namespace cairn::control {
namespace {

std::size_t columns() {
    winsize size{};
    constexpr std::size_t usual = 80;
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

bool dumb_terminal() {
    const char* kind = std::getenv("TERM");
    return kind == nullptr || std::string_view(kind) == "dumb";
}

}  // namespace

Progress::Progress(bool wanted) : terminal_(wanted && ::isatty(STDERR_FILENO) == 1 && !dumb_terminal()) {}

void Progress::show(const nlohmann::json& event) {
    if (!terminal_) return;
    // The last column stays free: writing into it wraps the line on some terminals.
    const std::string line = progress_line(event, columns() - 1);
    if (line.empty()) return;
    fmt::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
    dirty_ = true;
}

void Progress::clear() {
    if (!dirty_) return;
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
    dirty_ = false;
}

}  // namespace cairn::control
