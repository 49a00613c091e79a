#include "coordinator/region_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/fd.h"
#include "common/map_region.h"
#include "common/proc.h"

namespace cairn::coordinator {
namespace {

// Between reading the clock and the kernel's own note of the start lies at most a tick of 10 ms, rounded
// down.
constexpr std::uint64_t start_slack_ns = 20'000'000;

struct Head {
    std::uint64_t magic = 0;
    std::uint32_t version = 0;
};

// As maps shows it: on overlayfs and btrfs stat(2) gives another device number.
FileKey key_of_mapping(const void* address) {
    return mapped_file(address);
}

FileKey key_of_file(int fd) {
    void* at = ::mmap(nullptr, 4096, PROT_NONE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return {};
    const FileKey key = key_of_mapping(at);
    ::munmap(at, 4096);
    return key;
}

// A process that uses the file as its region, or 0.
pid_t somebody_with(const FileKey& key) {
    for (const pid_t pid : proc::processes()) {
        if (pid == ::getpid()) continue;
        const MappedAt at = find_mapping(pid, key);
        if (at.mapped == Mapped::yes && at.library) return pid;
    }
    return 0;
}

bool anybody_in(const Region& region, const FileKey& key) {
    const std::uint32_t end = std::min(region.slots_end.load(), slot_count);
    for (std::uint32_t i = 0; i < end; ++i) {
        const Slot& slot = region.slots[i];
        const SlotState state = slot.state.load(std::memory_order_acquire);
        if ((state == SlotState::running || state == SlotState::exec) && slot_is_alive(slot, key))
            return true;
    }
    // Those who have no slot, or not yet: born and not registered while nobody looked.
    return somebody_with(key) != 0;
}

std::uint64_t own_namespace(const char* link) {
    struct stat space {};
    return ::stat(link, &space) == 0 ? space.st_ino : 0;
}

std::uint64_t own_pid_namespace() {
    return own_namespace("/proc/self/ns/pid");
}

}  // namespace

bool started_after(const Slot& slot, const ProcessInfo& info) {
    // A restored process carries the time stamp of its first life: nothing can be said.
    if ((slot.flags.load(std::memory_order_relaxed) & slot_restored) != 0) return false;
    const std::uint64_t born_ns = slot.born_ns.load(std::memory_order_relaxed);
    if (born_ns == 0) return false;  // it hasn't said yet when it began
    const std::uint64_t latest = born_ns + start_slack_ns;
    if (info.started_ns <= latest) return false;
    // It has written down its own clock, which is another where a restart has given the programs a time
    // namespace: on a machine that has started anew since, and has been up for longer than it was at the
    // checkpoint, theirs is behind.
    const pid_t pid = slot.pid.load(std::memory_order_relaxed);
    const auto ahead =
        proc::clock_offsets(std::to_string(pid)).boottime - proc::clock_offsets("self").boottime;
    return static_cast<std::int64_t>(info.started_ns) + ahead > static_cast<std::int64_t>(latest);
}

bool slot_is_alive(const Slot& slot, const FileKey& region) {
    const pid_t pid = slot.pid.load(std::memory_order_relaxed);
    if (pid <= 0 || has_ended(pid)) return false;
    const MappedAt at = find_mapping(pid, region);
    if (at.mapped == Mapped::yes && at.library) return true;
    // Who has registered has both. This coordinator, a restart, a capture have the region alone: one of them
    // has got the number of a process that is dead.
    if (at.mapped != Mapped::unknown && slot.state.load(std::memory_order_relaxed) == SlotState::running)
        return false;
    // In an exec the mapping has gone before the new image makes its own; maps of a process with another uid
    // can't be read. Then the start time decides whether the pid has been given to a stranger.
    const auto info = process_info(pid);
    return info && !started_after(slot, *info);
}

void clear_ids(IdMap& ids) {
    if (ids.used.load(std::memory_order_relaxed) == 0) return;
    ids.used.store(0, std::memory_order_release);
    for (IdEntry* table : {ids.by_virtual, ids.by_real})
        for (std::uint32_t i = 0; i < id_map_size; ++i) {
            table[i].value.store(0, std::memory_order_relaxed);
            table[i].key.store(0, std::memory_order_release);
        }
}

RegionFile::~RegionFile() {
    if (region_ != nullptr) ::munmap(region_, sizeof(Region));
}

Result<RegionFile> RegionFile::map(const Fd& fd, const std::string& name, bool adopted) {
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return fail_errno("{}", name);
    if (static_cast<std::uint64_t>(info.st_size) != sizeof(Region))
        return fail("{}: {} bytes are no region of this version", name, info.st_size);
    Region* const at = map_whole_region(fd.get());
    if (at == nullptr) return fail_errno("{}: mmap", name);
    return RegionFile(at, key_of_mapping(at), adopted);
}

Result<RegionFile> RegionFile::create(const Session& session) {
    const std::string fresh = session.region() + ".new";
    ::unlink(fresh.c_str());
    const Fd fd(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("{}: can't be made", fresh);
    // Allocated and not sparse: on a full tmpfs the first store into a hole is SIGBUS, in a program that only
    // registers.
    if (const int number = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(sizeof(Region))); number != 0) {
        ::unlink(fresh.c_str());
        errno = number;
        return fail_errno("{}: {} bytes for the session's region", fresh, sizeof(Region));
    }
    auto file = map(fd, fresh, false);
    if (!file) return file;
    Region& region = **file;
    region.version = region_version;
    // A table that a test can fill.
    if (const char* slots = std::getenv("CAIRN_SLOTS"); slots != nullptr)
        region.slot_limit = static_cast<std::uint32_t>(std::clamp(std::atoi(slots), 0, int{slot_count}));
    region.owner = region.user = ::geteuid();
    region.pid_namespace = own_pid_namespace();
    region.ipc_namespace = own_namespace("/proc/self/ns/ipc");
    // Births of an earlier region, which a restart may bring in, must not be taken for ours.
    region.tokens = static_cast<std::uint32_t>(boottime_ns() / 1000);
    const std::string path = session.region();
    if (path.size() >= sizeof region.path) {
        ::unlink(fresh.c_str());
        return fail("{}: longer than {} characters", path, sizeof region.path - 1);
    }
    std::strcpy(region.path, path.c_str());
    std::strncpy(region.session, session.name.c_str(), sizeof region.session - 1);
    region.magic = region_magic;
    if (::rename(fresh.c_str(), session.region().c_str()) != 0)
        return fail_errno("{}: rename from {}", session.region(), fresh);
    return file;
}

Result<RegionFile> RegionFile::open(const Session& session) {
    const std::string path = session.region();
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat info {};
    if (!fd) {
        // A symlink: keeper.cpp's way to a file without a name, through a coordinator that has ended.
        if (errno != ENOENT && errno != ELOOP) return fail_errno("{}", path);
        return create(session);
    }
    if (::fstat(fd.get(), &info) != 0) return fail_errno("{}", path);
    Head head;
    const bool whole =
        S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) == sizeof(Region) &&
        ::pread(fd.get(), &head.magic, sizeof head.magic, 0) == sizeof head.magic &&
        ::pread(fd.get(), &head.version, sizeof head.version, sizeof head.magic) == sizeof head.version &&
        head.magic == region_magic && head.version == region_version;
    if (!whole) {
        if (const pid_t user = somebody_with(key_of_file(fd.get())); user != 0)
            return fail_code(
                ExitCode::refused,
                "{}: processes of another version of cairn use it, {} for one; end them or take another "
                "--session",
                path, describe(user));
        return create(session);
    }
    auto file = map(fd, path, true);
    if (!file) return file;
    // A container's, which has ended, mostly: here its ids are other processes', init's for one.
    if (const auto theirs = (**file).pid_namespace.load(); theirs != 0 && theirs != own_pid_namespace()) {
        if (const pid_t user = somebody_with(file->key()); user != 0)
            return fail_code(
                ExitCode::refused,
                "{}: processes in another pid namespace (a container) use it, {} for one; end them "
                "or take another --session",
                path, describe(user));
        return create(session);
    }
    if (!anybody_in(**file, file->key())) return create(session);
    return file;
}

}  // namespace cairn::coordinator
