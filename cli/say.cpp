#include "cli/say.h"

#include <unistd.h>

#include <cerrno>

#include "common/printable.h"

namespace cairn::cli {
namespace {

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(fd, text.data(), text.size());
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(done));
    }
    return true;
}

}  // namespace

void complain(std::string_view text) {
    std::string line = "cairn: ";
    line += printable_lines(text);
    line += '\n';
    // Nobody is left to be told when stderr is gone.
    static_cast<void>(write_all(STDERR_FILENO, line));
}

bool print(std::string_view text) {
    return write_all(STDOUT_FILENO, text);
}

}  // namespace cairn::cli
