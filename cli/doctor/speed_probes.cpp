// What makes checkpoints and restarts fast where the kernel has it; each has a slower way beside it.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "cli/doctor/container.h"
#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/fd.h"
#include "common/lazy_memory.h"

namespace cairn::doctor {
namespace {

// struct pm_scan_arg, linux/fs.h of 6.7.
struct ScanRequest {
    std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long scan_request = _IOWR('f', 16, ScanRequest);

Observation scan_pages(const Setting&) {
    const Fd map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (!map) return failed("/proc/self/pagemap");
    constexpr std::size_t page = 4096;
    void* memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return failed("mmap");
    const auto at = reinterpret_cast<std::uint64_t>(memory);
    std::array<std::uint64_t, 3> region{};
    ScanRequest request{};
    request.size = sizeof request;
    request.start = at;
    request.end = at + page;
    request.vec = reinterpret_cast<std::uint64_t>(region.data());
    request.vec_len = 1;
    request.category_anyof_mask = request.return_mask = 8;  // PAGE_IS_PRESENT
    if (::ioctl(map.get(), scan_request, &request) < 0) return failed("PAGEMAP_SCAN");
    return worked("the kernel tells which pages there are in one call (PAGEMAP_SCAN)");
}

Observation own_pagemap(const Setting&) {
    const Fd map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::uint64_t entry = 0;
    const auto at = static_cast<off_t>(reinterpret_cast<std::uint64_t>(&entry) / 4096 * 8);
    if (!map || ::pread(map.get(), &entry, sizeof entry, at) != sizeof entry)
        return failed("/proc/self/pagemap");
    return worked();
}

Observation lazily(const Setting&) {
    if (const auto possible = can_be_lazy(); !possible) {
        auto seen = failed("", possible.error().number);
        seen.said = possible.error().what;
        return seen;
    }
    return worked("cairn restart --lazy lets programs go on before their memory is read");
}

Observation move_pages(const Setting&) {
    const Fd fault(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
    if (!fault) return failed("userfaultfd");
    constexpr std::uint64_t feature_move = 1 << 16;  // linux/userfaultfd.h of 6.8
    uffdio_api api = {UFFD_API, feature_move, 0};
    if (::ioctl(fault.get(), UFFDIO_API, &api) != 0) return failed("userfaultfd (UFFDIO_MOVE)");
    return worked("memory is read into huge pages, which are moved into place (UFFDIO_MOVE)");
}

Observation waits(const Setting&) {
    // No waiters: EINVAL says that the call is there.
    constexpr long futex_waitv = 449;
    if (::syscall(futex_waitv, nullptr, 0U, 0U, nullptr, 0) != 0 && errno == EINVAL) return worked();
    return failed("futex_waitv");
}

Observation huge_pages(const Setting&) {
    const auto line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    const auto from = line.find('['), to = line.find(']');
    auto seen = worked(from == std::string::npos || to < from ? "none in this kernel"
                                                              : line.substr(from + 1, to - from - 1));
    seen.facts["thp"] = seen.said;
    return seen;
}

void refine_huge_pages(Line& line, const Observation& seen, const Setting&) {
    if (seen.fact("thp") != "never") return;
    line.state = State::slower;
    line.meaning =
        "memory is copied and read in pages of 4 KiB: the pause of a checkpoint, and a restart, take longer";
    line.remedy = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
}

Observation open_map_files(const Setting&) {
    void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const auto at = reinterpret_cast<std::uint64_t>(memory);
    const Fd file(
        ::open(fmt::format("/proc/self/map_files/{:x}-{:x}", at, at + 4096).c_str(), O_RDONLY | O_CLOEXEC));
    return file ? worked("shared memory is read by its file, holes are seen")
                : failed("/proc/self/map_files");
}

void refine_moving(Line& line, const Observation& seen, const Setting&) {
    if ((seen.error == EPERM || seen.error == ENOSYS) && runtime_here() != Runtime::none)
        line.remedy = allow_call(runtime_here(), "userfaultfd");
}

constexpr std::array speeds{
    Probe{Group::checkpoint, "pagemap", own_pagemap, State::missing, true,
          "it isn't known which pages there are, so none can be saved",
          "a kernel with CONFIG_PROC_PAGE_MONITOR"},
    Probe{Group::speed, "pagemap_scan", scan_pages, State::slower, false,
          "the page map is read entry by entry, while the programs stand still", "a kernel from 6.7 on"},
    Probe{Group::speed, "map_files", open_map_files, State::note, false,
          "shared memory without a name is read as far as programs have it mapped; root reads all of it", ""},
    Probe{Group::speed, "futex_waitv", waits, State::slower, false,
          "who stands still for a checkpoint looks every few milliseconds whether it is over",
          "a kernel from 5.16 on; in a container: a newer runtime, whose seccomp filter knows futex_waitv"},
    Probe{Group::speed, "huge_pages", huge_pages, State::note, false, "", "", refine_huge_pages},
    Probe{Group::speed, "uffd_move", move_pages, State::slower, false,
          "memory is read in small pages where it belongs: a restart takes longer",
          "a kernel from 6.8 on with CONFIG_USERFAULTFD; in a container: a seccomp filter that allows "
          "userfaultfd",
          refine_moving},
    Probe{Group::speed, "lazy", lazily, State::slower, false,
          "lazy restarts: not here, memory is read before the programs go on",
          "run the restart as root, on Linux 6.17 or newer"},
};

}  // namespace

std::span<const Probe> speed_probes() {
    return speeds;
}

}  // namespace cairn::doctor
