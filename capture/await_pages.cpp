#include "capture/await_pages.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "common/fd.h"

namespace cairn::capture {

Result<> await_pages(const std::string& path, Reporter& reporter) {
    constexpr auto patience = std::chrono::seconds(30);
    constexpr auto between_reports = std::chrono::milliseconds(100);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) return {};
    if (!fd) return fail_errno("{}", path);
    auto progress = Clock::now(), reported = progress - between_reports;
    long left = -1;
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("{}", path);
        std::array<char, 32> text = {};
        const bool read = ::pread(fd.get(), text.data(), text.size() - 1, 0) > 0;
        const long now_left = read ? std::strtol(text.data(), nullptr, 10) : 0;
        const auto now = Clock::now();
        if (now_left != left) progress = now;
        left = now_left;
        const auto who = fmt::format("a restart's page server, {} MiB of memory still to come", left);
        if (now - reported >= between_reports) {
            reporter.phase("pages", {who});
            reported = now;
        }
        if (now - progress > patience)
            return fail_code(ExitCode::timed_out, "waited for {}; none came for {} s", who, patience.count());
        if (reporter.coordinator_gone()) return fail("the coordinator has gone");
        ::usleep(2000);
    }
    reporter.restart_deadline();
    return {};
}

}  // namespace cairn::capture
