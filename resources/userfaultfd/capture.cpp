// userfaultfd(2): what it watches is told by the flags of smaps, which mappings of which process by asking to
// watch them once more. That changes nothing where this one watches them already, and is EBUSY where another
// does (userfaultfd_register() in fs/userfaultfd.c).
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "common/proc.h"
#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

// Newer than Debian 12's headers: linux/userfaultfd.h of 5.13 and 5.19.
constexpr std::uint64_t mode_missing = 1, mode_write_protect = 2, mode_minor = 4;
constexpr std::uint64_t begun_mark = std::uint64_t{1} << 31;  // UFFD_FEATURE_INITIALIZED, the kernel's own
struct ContinueRequest {
    uffdio_range range;
    std::uint64_t mode;
    std::int64_t mapped;
};
constexpr unsigned long continue_fault = _IOWR(UFFDIO, 0x07, ContinueRequest);

struct UserfaultfdsFound {
    std::vector<std::int64_t> all;  // objects
};

std::uint32_t modes_of(const proc::MapLine& line) {
    std::uint64_t modes = 0;
    for (const auto& [flag, mode] :
         {std::pair{" um", mode_missing}, {" uw", mode_write_protect}, {" ui", mode_minor}})
        if (line.flags.find(flag) != std::string::npos) modes |= mode;
    return static_cast<std::uint32_t>(modes);
}

// By process (kernel's id): its mappings that some userfaultfd watches.
using Watched = std::map<pid_t, std::vector<proc::MapLine>>;

Result<Watched> watched_of(const Table& table) {
    Watched watched;
    for (const pid_t pid : table.members) {
        auto lines = proc::maps(proc::living_thread(pid), true);
        if (!lines) continue;  // a zombie
        std::erase_if(*lines, [](const proc::MapLine& line) { return modes_of(line) == 0; });
        if (!lines->empty()) watched.emplace(pid, std::move(*lines));
    }
    return watched;
}

// Whether something of the memory that this one belongs to is watched there, by whomever: a fault that was
// none, of a page that isn't asked for, is refused for another reason where nothing is (ENOENT).
bool belongs_to(int fd, const std::vector<proc::MapLine>& lines) {
    for (const auto& line : lines) {
        ContinueRequest request = {{line.start.value(), image_page}, 0, 0};
        if (line.page_size > image_page) request.range.len = line.page_size;
        if (::ioctl(fd, continue_fault, &request) == 0 || errno != ENOENT) return true;
    }
    return false;
}

bool watches(int fd, const proc::MapLine& line) {
    uffdio_register request = {{line.start.value(), line.end - line.start}, modes_of(line), 0};
    return ::ioctl(fd, UFFDIO_REGISTER, &request) == 0;
}

// linux/Documentation/admin-guide/mm/pagemap.rst
constexpr std::uint64_t entry_present = 1ULL << 63, entry_swapped = 1ULL << 62, entry_protected = 1ULL << 57;

void add_page(std::vector<std::pair<ProgramAddress, std::uint64_t>>& list, ProgramAddress at) {
    if (!list.empty() && list.back().first + list.back().second == at)
        list.back().second += image_page;
    else
        list.emplace_back(at, image_page);
}

Result<> find_pages(pid_t pid, schema::WatchedRange& range) {
    const Fd pagemap(
        ::open(fmt::format("/proc/{}/pagemap", proc::living_thread(pid)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!pagemap) return fail_errno("page map of {}", pid);
    std::array<std::uint64_t, 4096> entries = {};
    const auto end = range.start + range.length;
    for (auto at = range.start; at < end;) {
        const auto wanted =
            std::min<std::uint64_t>((end - at) / image_page, entries.size()) * sizeof entries[0];
        const ssize_t got = ::pread(pagemap.get(), entries.data(), wanted,
                                    static_cast<off_t>(at.value() / image_page * sizeof entries[0]));
        if (got <= 0) return fail_errno("page map of {}", pid);
        for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof entries[0];
             ++i, at += image_page) {
            if ((entries.at(i) & (entry_present | entry_swapped)) != 0) add_page(range.present, at);
            if ((range.modes & mode_write_protect) != 0 && (entries.at(i) & entry_protected) != 0)
                add_page(range.write_protected, at);
        }
    }
    return {};
}

Result<> find_ranges(Table& table, schema::Object& object, Watched& watched) {
    auto& saved = *object.get<schema::Userfaultfd>();
    const auto& found = table.descriptions.at(object.id);
    const int fd = found.fd();
    // Of one without a range it isn't told, and makes no difference as long as it has none.
    pid_t pid = found.holder.pid;
    std::vector<pid_t> candidates;
    for (const auto& [process, lines] : watched)
        if (watched.size() == 1 || belongs_to(fd, lines)) candidates.push_back(process);
    if (candidates.size() > 1)
        return fail_code(
            ExitCode::refused,
            "is a userfaultfd of which can't be told whose memory it watches: {} and {} have the "
            "same memory watched",
            proc::label(candidates[0]), proc::label(candidates[1]));
    if (!candidates.empty()) pid = candidates[0];
    saved.process = table.to_program(KernelId(pid));
    if (candidates.empty()) return {};
    auto& lines = watched.at(pid);
    for (const auto& line : lines) {
        if (!watches(fd, line)) continue;
        auto& range = saved.ranges.emplace_back();
        range.start = line.start;
        range.length = line.end - line.start;
        range.modes = modes_of(line);
        CHECK_OK(find_pages(pid, range));
    }
    std::erase_if(lines, [&](const proc::MapLine& line) {
        return std::ranges::any_of(saved.ranges,
                                   [&](const auto& range) { return range.start == line.start; });
    });
    return {};
}

}  // namespace

Result<> describe_userfaultfd(Table& table, const Description& found, schema::Object& object) {
    // A thread that waits at a page is told to stop, leaves the queue, and comes again when it goes on.
    if (info_number(found.info, "total") != 0) {
        auto soon = fail_code(ExitCode::refused,
                              "is a userfaultfd at which a system call waits for a page that the program has "
                              "yet to give");
        soon.error().passing = true;
        return soon;
    }
    unsigned long long api = 0, features = 0;
    const auto field = info_field(found.info, "API");
    if (!field || std::sscanf(std::string(*field).c_str(), "%llx:%llx", &api, &features) != 2)
        return fail("is a userfaultfd that says nothing of itself");
    schema::Userfaultfd saved;
    saved.begun = (features & begun_mark) != 0;
    saved.features = features & ~begun_mark;
    object.what = saved;
    table.of<UserfaultfdsFound>().all.push_back(object.id);
    return {};
}

Result<> capture_userfaultfds(Table& table) {
    const auto& all = table.of<UserfaultfdsFound>().all;
    if (all.empty()) return {};
    auto watched = TRY(watched_of(table));
    for (const auto id : all) {
        auto& object = table.objects[static_cast<std::size_t>(id)];
        if (auto done = find_ranges(table, object, watched); !done)
            return std::unexpected(std::move(done.error()).in(table.descriptions.at(id).who()));
    }
    for (const auto& [pid, lines] : watched)
        if (!lines.empty())
            return fail_code(ExitCode::refused,
                             "{}: memory {:#x}-{:#x} is watched by a userfaultfd that no process of the "
                             "computation has open, and that can't be saved",
                             proc::label(pid), lines[0].start, lines[0].end);
    return {};
}

}  // namespace cairn::capture
