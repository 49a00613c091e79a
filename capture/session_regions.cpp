#include "capture/session_regions.h"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/capture_number.h"
#include "common/fd.h"
#include "common/layout.h"
#include "common/map_region.h"
#include "common/region_copy.h"

namespace cairn::capture {
namespace {

Result<SessionRegion> map_region(const std::string& path, uid_t user, bool owners) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return fail_errno("{}", path);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return fail_errno("{}", path);
    if (status.st_size != static_cast<off_t>(sizeof(Region)))
        return fail("{}: not a region of this version", path);
    Region* const region = map_whole_region(fd.get());
    if (region == nullptr) return fail_errno("mapping {}", path);
    // What another user's says of itself is nothing that could be believed, and it was made by our
    // coordinator.
    if (owners && (region->magic != region_magic || region->version != region_version))
        return fail("{}: not a region of this version", path);
    return SessionRegion{user, region, mapped_file(region), owners, std::move(fd)};
}

// Whose a System V object is, by the kernel's word; nothing if it has gone.
std::optional<ipc_perm> rights_of(IpcKind kind, int id) {
    switch (kind) {
        case IpcKind::memory: {
            shmid_ds about{};
            if (::shmctl(id, IPC_STAT, &about) == 0) return about.shm_perm;
            break;
        }
        case IpcKind::semaphores: {
            semid_ds about{};
            union {
                int value;
                semid_ds* about;
            } argument{};
            argument.about = &about;
            if (::semctl(id, 0, IPC_STAT, argument) == 0) return about.sem_perm;
            break;
        }
        case IpcKind::messages: {
            msqid_ds about{};
            if (::msgctl(id, IPC_STAT, &about) == 0) return about.msg_perm;
            break;
        }
    }
    return std::nullopt;
}

// Whether this user may read and change it: then nobody gains anything by it that it is saved, and put back
// by a restart.
bool is_open_to(uid_t user, IpcKind kind, int id) {
    constexpr unsigned others_too = 0006;
    const auto rights = rights_of(kind, id);
    return rights &&
           (rights->uid == user || rights->cuid == user || (rights->mode & others_too) == others_too);
}

}  // namespace

Result<SessionRegions> SessionRegions::open(const std::string& owners, const std::vector<Other>& others,
                                            std::map<pid_t, Known> known) {
    SessionRegions regions;
    auto first = TRY(map_region(owners, ::geteuid(), true));
    regions.all_.push_back(std::move(first));
    for (const Other& other : others) {
        auto region = map_region(other.path, other.user, false);
        if (!region) return std::unexpected(std::move(region.error()).in(fmt::format("user {}", other.user)));
        regions.all_.push_back(std::move(*region));
    }
    regions.known_ = std::move(known);
    for (const auto& [pid, member] : regions.known_)
        if (member.door.known()) regions.doors_.insert(member.door);
    if (others.empty()) return regions;
    auto library = TRY(OwnLibrary::read(own_library()));
    regions.library_ = library;
    return regions;
}

const SessionRegion* SessionRegions::of(pid_t pid) const {
    if (all_.size() == 1) return &all_.front();
    const auto ids = user_ids(pid);
    if (!ids) return nullptr;
    const uid_t owner = all_.front().user;
    // Its effective user's first: it got its region from the gate as that.
    for (const SessionRegion& each : all_)
        if (each.user == ids->region_of(owner) && each.region != nullptr) return &each;
    for (const SessionRegion& each : all_)
        if (ids->belongs_to(each.user, owner)) return &each;
    return nullptr;
}

bool SessionRegions::has_user_of(pid_t pid) const {
    if (owner() != 0) return true;  // of others' processes an ordinary user is shown nothing
    const auto ids = user_ids(pid);
    return ids && std::ranges::any_of(all_, [&](const SessionRegion& each) {
               return each.region != nullptr && ids->belongs_to(each.user, owner());
           });
}

void SessionRegions::set_capture(std::uint64_t number) const {
    for (const SessionRegion& each : all_) set_capture_number(*each.region, number);
}

bool SessionRegions::confirms(const SessionRegion& region, pid_t living, ProgramAddress region_at,
                              ProgramAddress door) const {
    if (region.owners) return true;
    const auto maps = proc::maps(living, false);
    if (!maps) return false;
    const auto line = std::ranges::find(*maps, region_at, &proc::MapLine::start);
    if (line == maps->end() || !shows(*line, region.key)) return false;
    // Where the library isn't the file that it was (an image with its own copy of it) a restart has said
    // where the Door is, and children have it at the same place.
    const ProgramAddress there = library_->door_in(*maps);
    return there.known() ? there == door : doors_.contains(door);
}

Result<OwnLibrary> SessionRegions::library() const {
    if (!library_) library_ = TRY(OwnLibrary::read(own_library()));
    return *library_;
}

ProgramAddress SessionRegions::door_in(pid_t living) const {
    const auto maps = proc::maps(living, false);
    const auto own = library();
    return maps && own ? own->door_in(*maps) : ProgramAddress();
}

std::optional<std::uint64_t> SessionRegions::born_ns(const SessionRegion& region, pid_t pid) const {
    if (region.owners) return std::nullopt;
    if (const auto known = known_.find(pid); known != known_.end()) return known->second.born_ns;
    const auto stat = proc::stat(pid);
    static const auto tick = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    return stat ? stat->start_time * (1'000'000'000ULL / tick) : 0;
}

ProgramId SessionRegions::to_program(KernelId kernel) const {
    const IdMap& ids = owners().ids;
    const ProgramId known = program_id(ids, kernel);
    if (!same_number(known, kernel) || all_.size() == 1 || ids.used.load() == 0) return known;
    // Born this instant, and the coordinator has not yet entered what it calls itself.
    for (const SessionRegion& each : all_) {
        if (each.owners) continue;
        const ProgramId name = program_id(each.region->ids, kernel);
        const bool by_the_rule = !same_number(name, kernel) && name == newcomers_name(ids, kernel);
        const auto who = by_the_rule ? user_ids(kernel.number()) : std::nullopt;
        if (who && who->belongs_to(each.user, all_.front().user)) return name;
    }
    return known;
}

IpcMap& SessionRegions::ipc() {
    if (all_.size() == 1) return owners().ipc;
    merged_ = std::make_unique<IpcMap>();
    IpcMap& all = *merged_;
    copy_ipc(owners().ipc, all);
    copy_undo(owners().ipc, all, [](KernelId) { return true; });
    all.lost.store(owners().ipc.lost.load());
    for (const SessionRegion& each : all_) {
        if (each.owners) continue;
        for (const IpcEntry& entry : each.region->ipc.entries) {
            const std::uint64_t known = entry.known.load();
            const std::int32_t real = entry.real.load();
            if (known == 0 || find_ipc(all, known) != nullptr) continue;
            const IpcKind kind = ipc_kind(known);
            if (find_ipc_by_real(all, kind, real) == nullptr && is_open_to(each.user, kind, real))
                bind_ipc(all, kind, ipc_id(known), real);
        }
        copy_undo(each.region->ipc, all, [&](KernelId pid) { return of(pid.number()) == &each; });
    }
    return all;
}

}  // namespace cairn::capture
