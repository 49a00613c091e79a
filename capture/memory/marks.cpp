#include "capture/memory/marks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "capture/memory/page_scan.h"
#include "common/image/format.h"

namespace cairn::capture {
namespace {

// linux/userfaultfd.h of 6.7.
constexpr std::uint64_t write_protect_unpopulated = 1 << 13, write_protect_async = 1 << 15;

// Each region of pages that are in all of `are` and in none of `are_not`; `told`: what is said of them.
template <class Found>
Result<> scan_marks(int map, page_scan::Argument argument, std::uint64_t are, std::uint64_t are_not,
                    const Found& found) {
    std::array<page_scan::Region, page_scan::most_regions> regions;
    argument.size = sizeof argument;
    // There has to be a place for answers: without one the kernel marks what isn't there, too, whatever was
    // asked for (pagemap_scan_pmd_entry() in fs/proc/task_mmu.c).
    argument.vec = reinterpret_cast<std::uint64_t>(regions.data());
    argument.vec_len = regions.size();
    argument.category_mask = are | are_not;
    argument.category_inverted = are_not;
    const auto end = argument.end;
    while (argument.start < end) {
        const int count = ::ioctl(map, page_scan::request, &argument);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("pages of {:#x}-{:#x}", argument.start, end);
        const auto all = std::span(regions).first(static_cast<std::size_t>(count));
        for (const auto& region : all) found(region);
        if (argument.max_pages != 0) break;
        argument.start = page_scan::next_start(argument, all, regions.size());
    }
    return {};
}

constexpr std::uint64_t can_count = page_scan::may_be_marked | page_scan::is_present;

page_scan::Argument within(ProgramRange range) {
    page_scan::Argument argument = {};
    argument.start = range.start.value();
    argument.end = range.end.value();
    return argument;
}

void append(PageRanges& to, const page_scan::Region& region) {
    const ProgramAddress start(region.start), end(region.end);
    if (!to.empty() && to.back().end == start)
        to.back().end = end;
    else
        to.push_back({start, end});
}

}  // namespace

PageRanges without(const PageRanges& from, const PageRanges& what) {
    PageRanges rest;
    auto next = what.begin();
    for (auto range : from) {
        while (next != what.end() && next->end <= range.start) ++next;
        for (auto each = next; each != what.end() && each->start < range.end; ++each) {
            if (range.start < each->start) rest.push_back({range.start, each->start});
            range.start = std::min(range.end, std::max(range.start, each->end));
        }
        if (range.start < range.end) rest.push_back(range);
    }
    return rest;
}

PageRanges in_both(const PageRanges& a, const PageRanges& b) {
    PageRanges both;
    auto next = b.begin();
    for (const auto& range : a) {
        while (next != b.end() && next->end <= range.start) ++next;
        for (auto each = next; each != b.end() && each->start < range.end; ++each)
            both.push_back({std::max(range.start, each->start), std::min(range.end, each->end)});
    }
    return both;
}

std::uint64_t length_of(const PageRanges& ranges) {
    std::uint64_t all = 0;
    for (const auto& range : ranges) all += range.length();
    return all;
}

bool has_marks_to_believe() {
    static const bool has = [] {
        utsname host = {};
        ::uname(&host);
        unsigned major = 0, minor = 0;
        return std::sscanf(host.release, "%u.%u", &major, &minor) == 2 &&
               (major > 6 || (major == 6 && minor >= 17));
    }();
    return has;
}

Result<MarkMaker> MarkMaker::begin(Fd fresh) {
    uffdio_api api = {UFFD_API, write_protect_unpopulated | write_protect_async, 0};
    if (::ioctl(fresh.get(), UFFDIO_API, &api) != 0)
        return fail_errno("userfaultfd with asynchronous write protection");
    return MarkMaker(std::move(fresh));
}

bool MarkMaker::allow(ProgramRange mapping) const {
    uffdio_register request = {{mapping.start.value(), mapping.length()}, UFFDIO_REGISTER_MODE_WP, 0};
    return ::ioctl(userfault_.get(), UFFDIO_REGISTER, &request) == 0;
}

void MarkMaker::let_go(ProgramRange mapping) const {
    uffdio_range range = {mapping.start.value(), mapping.length()};
    (void)::ioctl(userfault_.get(), UFFDIO_UNREGISTER, &range);
}

Result<PageMarks> PageMarks::of(pid_t pid) {
    Fd map(::open(fmt::format("/proc/{}/pagemap", pid).c_str(), O_RDONLY | O_CLOEXEC));
    if (!map) return fail_errno("/proc/{}/pagemap", pid);
    return PageMarks(std::move(map));
}

Result<PageMarks::Seen> PageMarks::look(ProgramRange range) const {
    Seen seen;
    auto argument = within(range);
    argument.return_mask = page_scan::is_written;
    const auto found = [&](const page_scan::Region& region) {
        append((region.categories & page_scan::is_written) != 0 ? seen.written : seen.marked, region);
    };
    CHECK_OK(scan_marks(map_.get(), argument, can_count, page_scan::is_zero, found));
    return seen;
}

bool PageMarks::has_any(ProgramRange range) const {
    return is_any(range, page_scan::is_zero | page_scan::is_written);
}

bool PageMarks::can_have_any(ProgramRange range) const {
    return is_any(range, page_scan::is_zero);
}

// A page that counts and is none of these.
bool PageMarks::is_any(ProgramRange range, std::uint64_t but) const {
    bool any = false;
    auto argument = within(range);
    argument.max_pages = 1;
    argument.return_mask = page_scan::is_present;
    const auto found = [&](const page_scan::Region&) { any = true; };
    return scan_marks(map_.get(), argument, can_count, but, found) && any;
}

Result<PageRanges> PageMarks::set(ProgramRange range) const {
    PageRanges set;
    auto argument = within(range);
    argument.flags = page_scan::set_marks;
    argument.return_mask = page_scan::is_written;
    const auto found = [&](const page_scan::Region& region) { append(set, region); };
    CHECK_OK(scan_marks(map_.get(), argument, can_count | page_scan::is_written, page_scan::is_zero, found));
    return set;
}

bool PageMarks::is_there(ProgramAddress page) const {
    constexpr std::uint64_t present = 1ULL << 63;
    std::uint64_t entry = 0;
    const auto at = static_cast<off_t>(page.value() / image_page * sizeof entry);
    return ::pread(map_.get(), &entry, sizeof entry, at) == sizeof entry && (entry & present) != 0;
}

}  // namespace cairn::capture
