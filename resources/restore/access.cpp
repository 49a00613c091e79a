#include "resources/restore/access.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/folder_trust.h"
#include "common/open_exactly.h"
#include "resources/schema/descriptor_room.h"

namespace cairn::restart {
namespace {

bool same_file(const struct stat& status, const schema::FileIdentity& before) {
    return status.st_dev == before.device && status.st_ino == before.inode &&
           (status.st_mode & S_IFMT) == (before.mode & S_IFMT);
}

// open(2) of what was found; a description of its own.
Fd reopen(int place, int flags) {
    return Fd(::open(fmt::format("/proc/self/fd/{}", place).c_str(), flags));
}

bool may_access(int place, int flags) {
    const int access = flags & O_ACCMODE;
    const int wanted = access == O_RDONLY ? R_OK : access == O_WRONLY ? W_OK : R_OK | W_OK;
    return ::syscall(SYS_faccessat2, place, "", wanted, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

std::unexpected<Error> link_on_the_way(const std::string& path) {
    auto error =
        fail_code(ExitCode::refused,
                  "{}: there is a symbolic link on the way, and at the checkpoint there was none: name "
                  "the place itself (--path-map OLD=NEW)",
                  path);
    error.error().number = ELOOP;
    return error;
}

}  // namespace

Access::Access(const schema::Objects& objects, std::span<const schema::Process> processes,
               const std::string& directory)
    : doubt_(who_else_can_write(directory, 0)) {
    std::map<std::int64_t, std::set<Rights>> holders;
    std::set<Rights> everybody;
    for (const schema::Process& process : processes) {
        if (process.run == schema::Run::zombie) continue;
        const Rights rights = rights_of(process);
        everybody.insert(rights);
        members_.emplace(process.pid, rights);
        executed_.insert(process.executable);
        for (const std::int64_t id : needed_to_rebuild(process)) holders[id].insert(rights);
        for (const auto& descriptor : process.descriptors) holders[descriptor.object].insert(rights);
    }
    for (const schema::Object& object : objects.objects) {
        if (object.backing < 0) continue;
        const auto those = holders[object.id];
        holders[object.backing].insert(those.begin(), those.end());
        if (executed_.contains(object.id)) executed_.insert(object.backing);
    }
    for (auto& [id, rights] : holders) holders_[id].assign(rights.begin(), rights.end());
    everybody_.assign(everybody.begin(), everybody.end());
}

std::span<const Rights> Access::of(std::int64_t object) const {
    const auto found = holders_.find(object);
    if (found != holders_.end() && !found->second.empty()) return found->second;
    if (!everybody_.empty()) return everybody_;
    return {&own_rights(), 1};
}

Result<> Access::allow_root(const schema::Object& object, const std::string& path, const struct stat& status,
                            const Rights& refused, int problem) const {
    const auto no = [&](const std::string& why) {
        return fail_code(ExitCode::refused, "{}: {} had it open and may not open it now ({}); {}", path,
                         words_for_user(refused.user), std::strerror(problem), why);
    };
    if (!doubt_.empty())
        return no(
            fmt::format("root's rights are for checkpoints that only root can have written, and {}: copy "
                        "the checkpoint to a folder of root's (cp -r), or give the user the right",
                        doubt_));
    if (object.is<schema::Terminal>())
        return no("it has the same name and inode whoever has logged in there");
    if (same_file(status, object.identity)) return {};
    const std::string who = who_else_can_write(path.substr(0, path.rfind('/') + 1), 0);
    if (who.empty()) return {};
    return no(
        fmt::format("it is another file than the one that was open, and others than root may have put it "
                    "there ({}): put the old one back, or give the user the right",
                    who));
}

Result<FoundFile> Access::find(const schema::Object& object, const std::string& path) const {
    FoundFile found;
    const Rights* refused = nullptr;
    int problem = 0;
    const auto look = [&]() -> Result<> {
        Fd place = open_exactly(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (!place && errno == ELOOP) return link_on_the_way(path);
        if (!place) return fail_errno("{}", path);
        struct stat status {};
        if (::fstat(place.get(), &status) != 0) return fail_errno("{}", path);
        if (S_ISLNK(status.st_mode) && !S_ISLNK(object.identity.mode)) return link_on_the_way(path);
        if (found.place && (status.st_dev != found.status.st_dev || status.st_ino != found.status.st_ino))
            return fail_code(ExitCode::refused, "{} was exchanged for another file while it was looked up",
                             path);
        found.place = std::move(place);
        found.status = status;
        return {};
    };
    for (const Rights& rights : of(object.id)) {
        const auto acting = TRY(ActingAs::begin(rights));
        auto looked = look();
        if (looked) continue;
        if ((looked.error().number != EACCES && looked.error().number != EPERM) || !must_take(rights))
            return std::unexpected(std::move(looked.error()));
        refused = &rights;
        problem = looked.error().number;
    }
    if (refused == nullptr) return found;
    CHECK_OK(look());
    CHECK_OK(allow_root(object, path, found.status, *refused, problem));
    found.by_root = true;
    return found;
}

Result<Fd> Access::open(const schema::Object& object, const std::string& path, const FoundFile& found,
                        int flags) const {
    if ((flags & O_PATH) != 0) {
        // A link can't be opened by way of another descriptor of it.
        Fd again = S_ISLNK(found.status.st_mode) ? Fd(::fcntl(found.place.get(), F_DUPFD_CLOEXEC, 0))
                                                 : reopen(found.place.get(), flags);
        if (!again) return fail_errno("{}", path);
        return again;
    }
    const Rights* refused = nullptr;
    int problem = 0;
    Fd opened;
    for (const Rights& rights : of(object.id)) {
        if (found.by_root) break;
        const auto acting = TRY(ActingAs::begin(rights));
        // One opens it, the others are asked whether they might: opening may do something to a device.
        const bool first = !opened;
        if (first)
            opened = same_file(found.status, object.identity) ? open_as_owner(found.place.get(), flags)
                                                              : reopen(found.place.get(), flags);
        if (first ? static_cast<bool>(opened) : may_access(found.place.get(), flags)) continue;
        if ((errno != EACCES && errno != EPERM) || !must_take(rights)) return fail_errno("{}", path);
        refused = &rights;
        problem = errno;
        break;
    }
    if (refused == nullptr && !found.by_root) return opened;
    if (refused != nullptr)
        if (auto allowed = allow_root(object, path, found.status, *refused, problem); !allowed) {
            allowed.error().number = problem;
            return std::unexpected(std::move(allowed.error()));
        }
    Fd by_root = reopen(found.place.get(), flags);
    if (!by_root) return fail_errno("{}", path);
    return by_root;
}

Result<> Access::may_read(const schema::Object& object, const std::string& path,
                          const FoundFile& found) const {
    if (found.by_root) return {};
    for (const Rights& rights : of(object.id)) {
        const auto acting = TRY(ActingAs::begin(rights));
        if (may_access(found.place.get(), O_RDONLY)) continue;
        if ((errno != EACCES && errno != EPERM) || !must_take(rights)) return fail_errno("{}", path);
        return allow_root(object, path, found.status, rights, errno);
    }
    return {};
}

const Rights& Access::one_of(std::int64_t object, std::optional<uid_t> user) const {
    const auto holders = of(object);
    for (const Rights& rights : holders)
        if (user && rights.user == *user) return rights;
    // Without a wish, somebody who isn't root where there is one.
    for (const Rights& rights : holders)
        if (must_take(rights)) return rights;
    return holders.front();
}

bool Access::root_may_make(const std::string& path) const {
    return doubt_.empty() && who_else_can_write(path.substr(0, path.rfind('/') + 1), 0).empty();
}

bool Access::same_user(ProgramId pid, const Rights& rights) const {
    const auto member = members_.find(pid);
    return member != members_.end() && member->second.user == rights.user &&
           (member->second.capabilities & ~rights.capabilities) == 0;
}

}  // namespace cairn::restart
