#include "restart/pages/user_fault.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>

#include "common/proc.h"

namespace cairn::restart::pages {
namespace {

// linux/userfaultfd.h of 5.13.
struct RangeRequest {
    uffdio_range range;
    std::uint64_t mode;
    std::int64_t done;
};
constexpr unsigned long continue_request = _IOWR(UFFDIO, 0x07, RangeRequest);

}  // namespace

Probe probe(int fd, ProgramAddress address) {
    RangeRequest request = {{address.value(), page}, 0, 0};
    if (::ioctl(fd, continue_request, &request) == 0) return Probe::registered;
    switch (errno) {
        case EAGAIN:
            return Probe::changing;
        case ENOENT:
            return Probe::not_registered;
        case ESRCH:
            return Probe::gone;
        default:
            return Probe::registered;
    }
}

void wake(int fd, ProgramAddress address, std::uint64_t length) {
    uffdio_range range = {address.value(), length};
    ::ioctl(fd, UFFDIO_WAKE, &range);
}

std::size_t faults_waiting(int fd) {
    const auto info = proc::read_file(fmt::format("/proc/self/fdinfo/{}", fd));
    const auto at = info ? info->find("pending:") : std::string::npos;
    return at == std::string::npos ? 0 : std::strtoul(info->c_str() + at + 8, nullptr, 10);
}

Event change_in(const uffd_msg& message) {
    const auto& argument = message.arg;
    switch (message.event) {
        case UFFD_EVENT_FORK:
            return {.kind = Change::fork};
        case UFFD_EVENT_REMAP:
            return {.kind = Change::remap,
                    .from = ProgramAddress(argument.remap.from),
                    .length = argument.remap.len,
                    .to = ProgramAddress(argument.remap.to)};
        default:
            return {.kind = message.event == UFFD_EVENT_UNMAP ? Change::unmap : Change::remove,
                    .from = ProgramAddress(argument.remove.start),
                    .length = argument.remove.end - argument.remove.start};
    }
}

std::vector<ProgramRange> wiped_on_fork(pid_t pid) {
    std::vector<ProgramRange> ranges;
    const auto lines = proc::maps(pid, true);
    if (!lines) return ranges;
    for (const auto& line : *lines)
        if (line.flags.find(" wf") != std::string::npos || line.flags.starts_with("wf"))
            ranges.push_back({line.start, line.end});
    return ranges;
}

}  // namespace cairn::restart::pages
