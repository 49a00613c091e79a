// Which pages of a mapping have to be saved, by /proc/PID/pagemap.
#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "capture/memory/areas.h"
#include "capture/memory/page_scan.h"

namespace cairn::capture {
namespace {

using page_scan::is_file, page_scan::is_present, page_scan::is_swapped, page_scan::is_zero,
    page_scan::is_guard;

// linux/Documentation/admin-guide/mm/pagemap.rst
constexpr std::uint64_t entry_present = 1ULL << 63, entry_swapped = 1ULL << 62, entry_file = 1ULL << 61,
                        entry_guard = 1ULL << 58;

// Ends each range where an address is a multiple of `longest`: a restart can then fill huge pages whole.
class Runs {
  public:
    Runs(std::uint64_t longest, std::vector<ProgramRange>& ranges) : longest_(longest), ranges_(&ranges) {}
    void add(ProgramAddress start, ProgramAddress end) {
        while (start < end) {
            const auto stop = std::min(end, start - start % longest_ + longest_);
            if (!ranges_->empty() && ranges_->back().end == start && start % longest_ != 0)
                ranges_->back().end = stop;
            else
                ranges_->push_back({start, stop});
            start = stop;
        }
    }

  private:
    std::uint64_t longest_;
    std::vector<ProgramRange>* ranges_;
};

// False: this kernel has no such ioctl.
Result<bool> scan(int fd, const schema::Area& area, Runs& runs,
                  std::vector<std::pair<ProgramAddress, std::uint64_t>>& guards) {
    static bool knows_guards = true;  // since 6.16
    std::array<page_scan::Region, page_scan::most_regions> found;
    page_scan::Argument argument = {};
    argument.size = sizeof argument;
    argument.start = area.start.value();
    argument.end = area.end.value();
    argument.vec = reinterpret_cast<std::uint64_t>(found.data());
    argument.vec_len = found.size();
    if (area.kind == schema::AreaKind::file_private) {
        argument.category_mask = is_file;  // a page that was written to is anonymous
        argument.category_inverted = is_file;
    }
    while (argument.start < argument.end) {
        argument.category_anyof_mask = is_present | is_swapped | (knows_guards ? is_guard : 0);
        argument.return_mask = is_zero | (knows_guards ? is_guard : 0);
        const int count = ::ioctl(fd, page_scan::request, &argument);
        if (count < 0) {
            if (errno == EINVAL && knows_guards) {
                knows_guards = false;
                continue;
            }
            if (errno == ENOTTY || errno == EINVAL) return false;
            return fail_errno("pages of {:#x}-{:#x}", area.start, area.end);
        }
        const auto all = std::span(found).first(static_cast<std::size_t>(count));
        for (const auto& region : all) {
            if ((region.categories & is_guard) != 0)
                guards.emplace_back(ProgramAddress(region.start), region.end - region.start);
            else if ((region.categories & is_zero) == 0 || area.kind == schema::AreaKind::file_private)
                runs.add(ProgramAddress(region.start), ProgramAddress(region.end));
        }
        argument.start = page_scan::next_start(argument, all, found.size());
    }
    return true;
}

Result<> read_entries(int fd, const schema::Area& area, Runs& runs,
                      std::vector<std::pair<ProgramAddress, std::uint64_t>>& guards) {
    std::vector<std::uint64_t> entries(65536);
    for (ProgramAddress at = area.start; at < area.end;) {
        const auto want = std::min<std::uint64_t>((area.end - at) / image_page, entries.size());
        const ssize_t got =
            ::pread(fd, entries.data(), want * 8, static_cast<off_t>(at.value() / image_page * 8));
        if (got <= 0) return fail_errno("page map of {:#x}-{:#x}", area.start, area.end);
        for (std::size_t i = 0; i < static_cast<std::size_t>(got) / 8; ++i, at += image_page) {
            const auto entry = entries[i];
            if ((entry & entry_guard) != 0) {
                if (!guards.empty() && guards.back().first + guards.back().second == at)
                    guards.back().second += image_page;
                else
                    guards.emplace_back(at, image_page);
                continue;
            }
            if ((entry & (entry_present | entry_swapped)) == 0) continue;
            if (area.kind == schema::AreaKind::file_private && (entry & entry_file) != 0) continue;
            runs.add(at, at + image_page);
        }
    }
    return {};
}

}  // namespace

Result<int> PageMap::descriptor() {
    if (!fd_) fd_ = Fd(::open(fmt::format("/proc/{}/pagemap", pid_).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_) return fail_errno("/proc/{}/pagemap", pid_);
    return fd_.get();
}

Result<std::vector<ProgramRange>> stored_pages(
    PageMap& map, const schema::Area& area, std::uint64_t longest,
    std::vector<std::pair<ProgramAddress, std::uint64_t>>& guards) {
    // The page map shows nothing of pages that are the kernel's own.
    if (area.kind == schema::AreaKind::vdso) return std::vector<ProgramRange>{{area.start, area.end}};
    const int fd = TRY(map.descriptor());
    std::vector<ProgramRange> ranges;
    Runs runs(longest, ranges);
    auto scanned = TRY(scan(fd, area, runs, guards));
    if (scanned) return ranges;
    CHECK_OK(read_entries(fd, area, runs, guards));
    return ranges;
}

}  // namespace cairn::capture
