#include "resources/memory/capture_ahead.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include "common/proc.h"
#include "resources/memory/capture_read.h"

namespace cairn::capture {
namespace {

// What takes less than some milliseconds in the pause isn't worth being read twice.
constexpr std::uint64_t least = 4 << 20;

bool is_segment(const Mapping& mapping) {
    return mapping.path.starts_with("/SYSV");
}

// In another IPC namespace the same number is another segment.
bool in_our_ipc_namespace(pid_t pid) {
    std::error_code ignored;
    const auto its = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/ipc", pid), ignored);
    return !its.empty() && its == std::filesystem::read_symlink("/proc/self/ns/ipc", ignored);
}

// Of the kernel's own file system for memory without a name, or of /dev/shm as we have it. Names say nothing:
// in a mount namespace of its own a program can give them to files of a FUSE server, which lets a look at
// them wait for ever. In the pause there is a deadline.
bool is_memory(dev_t device) {
    static const std::set<dev_t> kept = [] {
        std::set<dev_t> devices;
        struct stat status {};
        const Fd nameless(::memfd_create("cairn", MFD_CLOEXEC));
        if (nameless && ::fstat(nameless.get(), &status) == 0) devices.insert(status.st_dev);
        struct statfs system {};
        if (::statfs("/dev/shm", &system) == 0 && system.f_type == TMPFS_MAGIC &&
            ::stat("/dev/shm", &status) == 0)
            devices.insert(status.st_dev);
        return devices;
    }();
    return kept.contains(device);
}

std::vector<Mapping> large_mappings(pid_t pid) {
    std::vector<Mapping> large;
    const auto lines = proc::maps(pid, false);  // a process that has just ended has none
    if (!lines) return large;
    for (const auto& line : *lines) {
        if (!line.shared || line.end - line.start < least) continue;
        auto mapping = mapping_of(line);
        if (!is_memory(mapping.device) || !ObjectTable::is_shared_memory(mapping)) continue;
        if (is_segment(mapping) && !in_our_ipc_namespace(pid)) continue;
        large.push_back(std::move(mapping));
    }
    return large;
}

// All of the inode, not only what is mapped there. None: this user isn't given it (map_files is for
// CAP_CHECKPOINT_RESTORE), or it isn't what was mapped any more.
Fd open_inode(pid_t pid, const Mapping& mapping, struct stat& status) {
    const auto is_it = [&](const Fd& fd) {
        return fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) &&
               status.st_ino == mapping.inode;
    };
    Fd fd(::open(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, mapping.start, mapping.end).c_str(),
                 O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (is_it(fd)) return fd;
    if (mapping.path.starts_with("/dev/shm/") && !mapping.deleted)
        fd.reset(::open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW));
    return is_it(fd) ? std::move(fd) : Fd();
}

class Round {
  public:
    Round(ImageWriter& writer, CopiedMemory& copied, const std::function<Result<>(std::uint64_t)>& told)
        : writer_(writer), copied_(copied), told_(told) {}

    Result<> copy(pid_t pid) {
        Fd memory, pages;
        for (const auto& mapping : large_mappings(pid)) {
            const MemoryKey key{{mapping.device, mapping.inode}, -1, is_segment(mapping)};
            if (whole_.contains(key)) continue;
            struct stat status {};
            if (const Fd fd = open_inode(pid, mapping, status)) {
                whole_.insert(key);
                CHECK_OK(copy_whole(fd.get(), static_cast<std::uint64_t>(status.st_size), key, mapping.path));
                continue;
            }
            if (!memory) memory.reset(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
            if (!pages)
                pages.reset(::open(fmt::format("/proc/{}/pagemap", pid).c_str(), O_RDONLY | O_CLOEXEC));
            if (memory && pages) CHECK_OK(copy_mapped(memory.get(), pages.get(), mapping, key));
        }
        return {};
    }

  private:
    Result<> copy_whole(int fd, std::uint64_t bytes, const MemoryKey& key, const std::string& path) {
        auto& contents = copied_.of(key, writer_);
        if (!contents.is_seen()) contents.see(Sight::of(fd, bytes));
        std::mutex mutex;
        Result<> problem;
        const auto tell = [&](Result<> done, std::uint64_t looked_at) -> Result<> {
            const std::scoped_lock lock(mutex);
            if (done) done = told_(looked_at);
            if (!done) problem = std::unexpected(done.error());
            return done;
        };
        // What can't be read is left for the pause, which says why.
        (void)read_contents(fd, bytes, path,
                            {contents.block(),
                             [&](std::uint64_t offset, std::uint64_t length) {
                                 return contents.is_unchanged(offset, length, nullptr) && tell({}, length);
                             },
                             [&](std::uint64_t offset, std::span<const std::uint8_t> data) {
                                 return tell(contents.put(offset, data, nullptr), data.size());
                             }});
        return problem;
    }

    // Only pages that this process has touched: a look at another one would fill a hole.
    Result<> copy_mapped(int memory, int pagemap, const Mapping& mapping, const MemoryKey& key) {
        constexpr std::uint64_t present = 1ULL << 63;  // admin-guide/mm/pagemap.rst
        auto& contents = copied_.of(key, writer_);
        auto& done = mapped_[key];
        const auto end = mapping.offset + (mapping.end - mapping.start);
        done.resize(std::max<std::size_t>(done.size(), end / image_page));
        std::vector<std::uint64_t> entries(image_max_run / image_page);
        std::vector<std::uint8_t> piece(image_max_run);
        for (auto at = mapping.offset; at < end;) {
            const auto count = std::min<std::uint64_t>(entries.size(), (end - at) / image_page);
            const auto from = mapping.start + (at - mapping.offset);
            const auto wanted = static_cast<ssize_t>(count * sizeof entries[0]);
            if (::pread(pagemap, entries.data(), static_cast<std::size_t>(wanted),
                        static_cast<off_t>(from.value() / image_page * sizeof entries[0])) != wanted)
                return {};
            for (std::uint64_t i = 0; i < count;) {
                const auto begin = i;
                while (i < count && (entries[i] & present) != 0 && !done[at / image_page + i]) ++i;
                if (begin == i) {
                    ++i;
                    continue;
                }
                const auto bytes = (i - begin) * image_page;
                if (::pread(memory, piece.data(), bytes,
                            static_cast<off_t>((from + begin * image_page).value())) !=
                    static_cast<ssize_t>(bytes))
                    return {};
                CHECK_OK(contents.put(at + begin * image_page, std::span(piece).first(bytes), nullptr));
                CHECK_OK(told_(bytes));
                for (auto each = begin; each < i; ++each) done[at / image_page + each] = true;
            }
            at += count * image_page;
        }
        return {};
    }

    ImageWriter& writer_;
    CopiedMemory& copied_;
    const std::function<Result<>(std::uint64_t)>& told_;
    std::set<MemoryKey> whole_;                      // all of it has been looked at
    std::map<MemoryKey, std::vector<bool>> mapped_;  // these of its pages
};

}  // namespace

InodeContents* CopiedMemory::find(const MemoryKey& key) {
    const auto found = all_.find(key);
    return found == all_.end() ? nullptr : found->second.get();
}

InodeContents& CopiedMemory::of(const MemoryKey& key, ImageWriter& writer) {
    auto& contents = all_[key];
    if (!contents) contents = std::make_unique<InodeContents>(writer, true);
    return *contents;
}

std::uint64_t CopiedMemory::written() const {
    std::uint64_t bytes = 0;
    for (const auto& [key, contents] : all_) bytes += contents->written();
    return bytes;
}

bool has_much_shared_memory(std::span<const pid_t> pids) {
    return std::ranges::any_of(pids, [](pid_t pid) { return !large_mappings(pid).empty(); });
}

Result<> copy_memory_ahead(std::span<const pid_t> pids, ImageWriter& writer, CopiedMemory& copied,
                           const std::function<Result<>(std::uint64_t)>& told) {
    Round round(writer, copied, told);
    for (const pid_t pid : pids) CHECK_OK(round.copy(pid));
    return {};
}

}  // namespace cairn::capture
