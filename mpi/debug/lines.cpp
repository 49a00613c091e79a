#include "mpi/debug/lines.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace cairn::mpi::debug {

bool Lines::take() {
    const std::size_t end = read_.find('\n');
    if (end == std::string::npos && (!ended_ || read_.empty())) return false;
    text_ = read_.substr(0, end);
    read_.erase(0, end == std::string::npos ? end : end + 1);
    return true;
}

Lines::What Lines::next() {
    for (;;) {
        const bool there = read_.find('\n') != std::string::npos || ended_;
        pollfd waiting[2] = {{ended_ ? -1 : in_, POLLIN, 0}, {other_, POLLIN, 0}};
        const int ready = ::poll(waiting, 2, there ? 0 : -1);
        if (ready < 0) return What::interrupt;
        if (waiting[1].revents != 0) return What::other;
        if (take()) return What::line;
        if (ended_) return What::end;
        if (waiting[0].revents == 0) continue;
        char bytes[4096];
        const ssize_t size = ::read(in_, bytes, sizeof bytes);
        if (size < 0 && errno == EINTR) return What::interrupt;
        if (size <= 0)
            ended_ = true;
        else
            read_.append(bytes, static_cast<std::size_t>(size));
    }
}

}  // namespace cairn::mpi::debug
