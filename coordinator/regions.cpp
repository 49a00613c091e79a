#include "coordinator/regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "common/capture_number.h"
#include "common/proc.h"
#include "common/region_copy.h"
#include "common/region_mapping.h"
#include "common/socket_names.h"

namespace cairn::coordinator {
namespace {

constexpr const char* memory_name = "cairn-region";
// Whoever maps a file that gets shorter is killed by SIGBUS, the coordinator as well.
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// As an earlier coordinator has noted them.
std::map<uid_t, FileKey> noted_users(const Session& session) {
    std::map<uid_t, FileKey> users;
    std::ifstream file(session.users());
    uid_t user = 0;
    FileKey key;
    while (file >> user >> key.major >> key.minor >> key.inode) users[user] = key;
    return users;
}

// By the mapping of a process that has it: no path leads to it, and no process keeps it open.
Fd open_mapping(pid_t pid, const MappedAt& at) {
    const std::string link = fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, at.at.start, at.at.end);
    return Fd(::open(link.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

Regions::Regions(const Session& session, RegionFile owners) : session_(session) {
    enter(::geteuid(), std::move(owners), Fd());
}

void Regions::enter(uid_t user, RegionFile file, Fd fd) {
    all_.push_back({user, std::move(file), std::move(fd)});
}

void Regions::adopt() {
    auto users = noted_users(session_);
    for (const pid_t pid : proc::processes()) {
        if (users.empty()) break;
        const auto ids = user_ids(pid);
        const auto noted = ids ? users.find(ids->region_of(owner())) : users.end();
        if (noted == users.end()) continue;
        const MappedAt at = find_mapping(pid, noted->second);
        if (at.mapped != Mapped::yes) continue;
        Fd fd = open_mapping(pid, at);
        if (!fd || ::fcntl(fd.get(), F_GET_SEALS) != size_seals) continue;
        auto file = RegionFile::map(fd, memory_name, true);
        if (!file || (*file)->magic != region_magic || (*file)->version != region_version) continue;
        if (file->key() != noted->second) continue;
        enter(noted->first, std::move(*file), std::move(fd));
        users.erase(noted);
        if (made) made(all_.size() - 1);
    }
    note_users();
}

Result<Fd> Regions::create(uid_t user) const {
    Fd fd(::memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) return fail_errno("memory for the region of user {}", user);
    if (::ftruncate(fd.get(), sizeof(Region)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, size_seals) != 0)
        return fail_errno("the region of user {}", user);
    return fd;
}

Result<std::size_t> Regions::of_user(uid_t user) {
    for (std::size_t number = 0; number < all_.size(); ++number)
        if (all_[number].user == user) return number;
    constexpr std::size_t most = 4096;  // Place has room for more
    if (all_.size() >= most) return fail("processes of {} users are in the session, which is too many", most);
    auto fd = TRY(create(user));
    auto file = TRY(RegionFile::map(fd, memory_name, false));
    Region& region = *file;
    const Region& known = owners();
    region.version = known.version;
    region.owner = known.owner;
    region.user = user;
    region.slot_limit.store(known.slot_limit.load());
    region.pid_namespace.store(known.pid_namespace.load());
    region.ipc_namespace.store(known.ipc_namespace.load());
    region.tokens.store(known.tokens.load());
    region.capture.store(known.capture.load());
    region.coordinator_pid.store(known.coordinator_pid.load());
    region.coordinator_generation.store(known.coordinator_generation.load());
    std::memcpy(region.session, known.session, sizeof region.session);
    std::memcpy(region.path, known.path, sizeof region.path);
    std::memcpy(region.gate, known.gate, sizeof region.gate);
    copy_names(known, region);
    region.magic = known.magic;
    enter(user, std::move(file), std::move(fd));
    note_users();
    if (made) made(all_.size() - 1);
    return all_.size() - 1;
}

// For a coordinator that is started again. Nobody but the owner can write into the session's folder.
void Regions::note_users() const {
    const std::string path = session_.users(), fresh = path + ".new";
    if (all_.size() == 1) {
        ::unlink(path.c_str());
        return;
    }
    {
        std::ofstream file(fresh, std::ios::trunc);
        for (std::size_t number = 1; number < all_.size(); ++number)
            file << user(number) << ' ' << key(number).major << ' ' << key(number).minor << ' '
                 << key(number).inode << '\n';
    }
    ::rename(fresh.c_str(), path.c_str());
}

std::string Regions::path(std::size_t number) const {
    if (number == 0) return session_.region();
    return fmt::format("/proc/{}/fd/{}", ::getpid(), all_[number].fd.get());
}

Result<Fd> Regions::descriptor(std::size_t number) const {
    const std::string from = path(number);
    Fd fd(::open(from.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return fail_errno("{}", from);
    return fd;
}

void Regions::share_ids(const std::function<bool(KernelId id, uid_t user)>& is_members) const {
    IdMap& known = owners().ids;
    for (std::size_t number = 1; number < size(); ++number) {
        IdMap& theirs = (*this)[number].ids;
        // What newcomers of this user call themselves, if it is what the rule of name_newcomer() gives.
        if (theirs.used.load(std::memory_order_acquire) != 0 && known.used.load() != 0)
            for (const IdEntry& entry : theirs.by_virtual) {
                const ProgramId name(entry.key.load(std::memory_order_acquire));
                const KernelId id(entry.value.load(std::memory_order_acquire));
                if (!name.known() || !id.known() || same_number(name, id) || bound_to(known, name).known() ||
                    bound_to(known, id).known() || newcomers_name(known, id) != name ||
                    !is_members(id, user(number)))
                    continue;
                insert_id(known, name, id);
            }
        copy_ids(known, theirs);
    }
}

void Regions::clear_names() const {
    for (const One& one : all_) {
        clear_ids(one.file->ids);
        clear_ipc(one.file->ipc);
        clear_socket_names(one.file->sockets);
    }
}

void Regions::set_capture(std::uint64_t number) const {
    for (const One& one : all_) set_capture_number(*one.file, number);
}

std::uint32_t Regions::overflow() const {
    std::uint32_t sum = 0;
    for (const One& one : all_) sum += one.file->overflow.load();
    return sum;
}

void Regions::set_coordinator(pid_t pid) const {
    for (const One& one : all_) one.file->coordinator_pid.store(pid);
}

void Regions::note_ckptdir(const std::string& folder) const {
    Region& region = owners();
    std::fill(std::begin(region.ckptdir), std::end(region.ckptdir), '\0');
    folder.copy(region.ckptdir, sizeof region.ckptdir - 1);
}

}  // namespace cairn::coordinator
