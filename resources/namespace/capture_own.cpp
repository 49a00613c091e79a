// Namespaces that the group has made for itself: found by the processes that are in them, and looked at by a
// process that goes into each.
#include "resources/namespace/capture_own.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/in_network.h"
#include "common/proc.h"
#include "resources/namespace/capture_visit.h"
#include "resources/namespace/schema_mounts.h"

namespace cairn::capture {
namespace {

struct Kept {
    std::int64_t object = -1;
    int depth = 0;  // of a user namespace: below the session's
};
struct OwnNetwork {
    Fd space, owner;  // owner: the user namespace that it belongs to
    SockDiag sock_diag;
};
struct OwnNamespaces {
    std::map<Inode, Kept> all;
    std::map<std::int64_t, OwnNetwork> networks;   // by object
    std::map<std::int64_t, std::set<int>> mounts;  // of a mount namespace's object: their ids
    std::set<int> of_inner_pids;  // mounts of proc that show a pid namespace of the group's own
    std::uint64_t found_at = 0;   // ticks since the machine's boot, when the first was found
};

std::uint64_t ticks_now() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const auto each = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    return static_cast<std::uint64_t>(now.tv_sec) * each +
           static_cast<std::uint64_t>(now.tv_nsec) * each / 1'000'000'000;
}

Result<Inode> inode_behind(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return fail_errno("a namespace");
    return inode_of(status);
}

Result<Inode> inode_at(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return fail_errno("{}", path);
    return inode_of(status);
}

// The user namespace that programs have been given from outside: ours, or the one that an ordinary user's
// restart has made to have a time namespace (restart/clock.cpp), to which that belongs. The next restart
// makes one as well.
Result<Inode> given_user_namespace(const Holder& holder) {
    const auto ours = TRY(inode_at("/proc/self/ns/user"));
    const Fd time(::open((proc_folder(holder) + "ns/time").c_str(), O_RDONLY | O_CLOEXEC));
    if (!time) return ours;
    const auto its_time = TRY(inode_behind(time.get()));
    const auto our_time = TRY(inode_at("/proc/self/ns/time"));
    if (its_time == our_time) return ours;
    const Fd owner(::ioctl(time.get(), NS_GET_USERNS));
    return owner ? inode_behind(owner.get()) : Result<Inode>(ours);
}

void look_at_users(Visit& here) {
    for (const char* path : {"/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups"})
        here.say_file(Fd(::open(path, O_RDONLY | O_CLOEXEC)).get());
}

void look_at_names(Visit& here) {
    utsname names{};
    ::uname(&names);
    here.say(names.nodename);
    here.say(names.domainname);
}

void look_at_interfaces(Visit& here) {
    std::string others;
    struct if_nameindex* const all = ::if_nameindex();
    for (const auto* each = all; each != nullptr && each->if_index != 0; ++each)
        if (std::string_view(each->if_name) != "lo") others += fmt::format(" {}", each->if_name);
    here.say(others);
    const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq wanted{};
    std::strcpy(wanted.ifr_name, "lo");
    const bool up = ::ioctl(any.get(), SIOCGIFFLAGS, &wanted) == 0 && (wanted.ifr_flags & IFF_UP) != 0;
    here.say(up ? "up" : "");
}

// Names of POSIX queues are told by a mount of mqueue only (mq_overview(7)), which nobody else sees.
std::string queues_here() {
    constexpr const char* place = "/proc";
    std::string found;
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", place, "mqueue", 0, nullptr) != 0)
        return found;
    std::error_code error;
    for (const auto& each : std::filesystem::directory_iterator(place, error))
        found += fmt::format(" /{}", each.path().filename().native());
    return found;
}

void look_at_ipc(Visit& here) {
    std::string found;
    for (const char* kind : {"msg", "sem", "shm"}) {
        std::ifstream file(fmt::format("/proc/sysvipc/{}", kind));
        std::string line;
        std::getline(file, line);  // what the columns are called
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::int64_t key = 0, id = 0;
            words >> key >> id;
            found += fmt::format(" {} {}", kind, id);
        }
    }
    here.say(found + queues_here());
}

Result<> look_into(int owner, int space, schema::NamespaceType type, schema::OwnNamespace& own,
                   FoundMounts& mounts) {
    using Type = schema::NamespaceType;
    if (type == Type::user) {
        auto seen = TRY(Visit::to(space, space, type, look_at_users));
        own.uid_map = seen.next();
        own.gid_map = seen.next();
        own.set_groups = !seen.next().starts_with("deny");
        uid_t creator = 0;
        if (::ioctl(space, NS_GET_OWNER_UID, &creator) != 0) return fail_errno("NS_GET_OWNER_UID");
        own.creator = creator;
    } else if (type == Type::uts) {
        auto seen = TRY(Visit::to(owner, space, type, look_at_names));
        own.host_name = seen.next();
        own.domain = seen.next();
    } else if (type == Type::net) {
        auto seen = TRY(Visit::to(owner, space, type, look_at_interfaces));
        if (const auto others = seen.next(); !others.empty())
            return fail_code(
                ExitCode::refused,
                "has network interfaces besides lo ({}), which can't be saved; take them out, or "
                "start cairn inside of it",
                others.substr(1));
        own.loopback_up = seen.next() == "up";
    } else if (type == Type::mnt) {
        auto found = TRY(find_mounts(owner, space));
        own.mounts = std::move(found.mounts);
        mounts = std::move(found);
    } else if (type == Type::ipc) {
        auto seen = TRY(Visit::to(owner, space, type, look_at_ipc));
        if (const auto found = seen.next(); !found.empty())
            return fail_code(ExitCode::refused,
                             "has System V objects or POSIX queues in it ({}), which can't be saved; remove "
                             "them, or start cairn inside of it",
                             found.substr(1));
    }
    return {};
}

// One that is mounted somewhere lasts without the group, as those of ip-netns(8) do: a restart would make
// another one beside it.
Result<> refuse_mounted(const std::string& name) {
    const auto mounts = TRY(proc::read_file("/proc/self/mountinfo"));
    for (const auto& line : schema::parse_mounts(mounts))
        if (line.type == "nsfs" && line.root == name)
            return fail_code(
                ExitCode::refused,
                "is in the namespace {}, which lasts without the computation, and can't be saved; start "
                "cairn in there (`ip netns exec`, `nsenter`)",
                line.point);
    return {};
}

// How deep it is below the user namespace that programs have been given (0), and its object.
Result<Kept> enter_own(Table& table, const Holder& holder, const Inode& given, int fd) {
    auto& all = table.of<OwnNamespaces>().all;
    const auto inode = TRY(inode_behind(fd));
    if (inode == given) return Kept{};
    if (const auto found = all.find(inode); found != all.end()) return found->second;
    const int answer = ::ioctl(fd, NS_GET_NSTYPE);
    if (answer < 0) return fail_errno("NS_GET_NSTYPE");
    const auto type = static_cast<schema::NamespaceType>(answer);
    const bool is_user = type == schema::NamespaceType::user;
    const Fd owner(::ioctl(fd, is_user ? NS_GET_PARENT : NS_GET_USERNS));
    if (!owner)
        return fail_code(
            ExitCode::refused,
            "is in a {} namespace that isn't below the one that cairn is in (setns), which can't "
            "be saved; start cairn in there",
            schema::name_of(type));
    const auto name = fmt::format("{}:[{}]", schema::name_of(type), inode.number);
    CHECK_OK(refuse_mounted(name));
    if (all.empty()) table.of<OwnNamespaces>().found_at = ticks_now();
    const auto above = TRY(enter_own(table, holder, given, owner.get()));
    schema::OwnNamespace own;
    own.owner = above.object;
    FoundMounts mounts;
    if (auto seen = look_into(above.object < 0 ? -1 : owner.get(), fd, type, own, mounts); !seen)
        return std::unexpected(
            std::move(seen.error()).in(fmt::format("its {} namespace", schema::name_of(type))));
    schema::Object& object = table.add(schema::Namespace{type, std::move(own), std::nullopt});
    object.path = name;
    object.flags = O_RDONLY;
    if (!mounts.ids.empty()) table.of<OwnNamespaces>().mounts[object.id] = std::move(mounts.ids);
    table.of<OwnNamespaces>().of_inner_pids.merge(mounts.of_inner_pids);
    if (type == schema::NamespaceType::net)
        table.of<OwnNamespaces>().networks[object.id] = {
            Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), Fd(::fcntl(owner.get(), F_DUPFD_CLOEXEC, 0)), {}};
    return all[inode] = {object.id, above.depth + (is_user ? 1 : 0)};
}

}  // namespace

// Somebody outside who has gone into one (nsenter(1)) stays in the old one. Who was born since the programs
// stood still is a child of theirs, or of ours.
Result<> note_who_else_is_there(Table& table) {
    const auto& own = table.of<OwnNamespaces>();
    if (own.all.empty()) return {};
    for (const pid_t pid : proc::processes()) {
        const auto stat = proc::stat(pid);
        if (table.members.contains(pid) || !stat || stat->start_time >= own.found_at) continue;
        for (const char* name : {"cgroup", "ipc", "mnt", "net", "user", "uts"}) {
            const auto its = inode_at(fmt::format("/proc/{}/ns/{}", pid, name));
            if (its && own.all.contains(*its))
                table.note(
                    "{} is outside of the computation, and in a {} namespace of it: after a restart it is "
                    "still "
                    "in the old one",
                    proc::label(pid), name);
        }
    }
    return {};
}

std::optional<std::int64_t> own_namespace(const Table& table, const Inode& inode) {
    const auto& all = table.of<OwnNamespaces>().all;
    const auto found = all.find(inode);
    return found == all.end() ? std::nullopt : std::optional(found->second.object);
}

std::optional<std::int64_t> own_mounts_of(const Table& table, const Holder& holder) {
    if (table.of<OwnNamespaces>().mounts.empty()) return std::nullopt;
    const auto its = inode_at(proc_folder(holder) + "ns/mnt");
    return its ? own_namespace(table, *its) : std::nullopt;
}

bool has_mount(const Table& table, std::int64_t space, int id) {
    const auto& all = table.of<OwnNamespaces>().mounts;
    const auto found = all.find(space);
    return found != all.end() && found->second.contains(id);
}

bool shows_inner_pids(const Table& table, int id) {
    return table.of<OwnNamespaces>().of_inner_pids.contains(id);
}

Result<std::optional<schema::OwnMounts>> ObjectTable::own_mounts(const Holder& holder) {
    if (!own_mounts_of(*table_, holder)) return std::nullopt;
    schema::OwnMounts own;
    own.cwd = TRY(read_link(proc_folder(holder) + "cwd"));
    own.root = TRY(read_link(proc_folder(holder) + "root"));
    if (own.cwd.ends_with(" (deleted)") || own.root.ends_with(" (deleted)"))
        return fail_code(
            ExitCode::refused,
            "{}: its working folder or root folder has been removed in its mount namespace ({}), which "
            "can't be saved",
            name_of(holder), own.cwd);
    return own;
}

// ioctl(SIOCGSKNS) is there since Linux 4.9. Who has no rights in a socket's network isn't told it: it is
// none that an ordinary user's programs have made. Nobody may be in it any more but the socket.
Result<std::int64_t> own_network_of(Table& table, const Description& found) {
    const Fd network(::ioctl(found.fd(), SIOCGSKNS));
    if (!network) return -1;
    if (TRY(inode_behind(network.get())) == TRY(inode_at("/proc/self/ns/net"))) return -1;
    const auto given = TRY(given_user_namespace(found.holder));
    return TRY(enter_own(table, found.holder, given, network.get())).object;
}

Result<> in_own_network(const Table& table, std::int64_t network, const std::function<Result<>()>& work) {
    const auto& networks = table.of<OwnNamespaces>().networks;
    const auto found = networks.find(network);
    if (found == networks.end()) return work();
    return in_network({found->second.space.get(), found->second.owner.get()}, work);
}

Result<SockDiag*> sock_diag_of(Table& table, std::int64_t network) {
    auto& networks = table.of<OwnNamespaces>().networks;
    const auto found = networks.find(network);
    if (found == networks.end()) return &table.sock_diag;
    CHECK_OK(in_own_network(table, network, [&] { return found->second.sock_diag.open(); }));
    return &found->second.sock_diag;
}

void ObjectTable::name_pid_namespaces(const std::map<std::uint64_t, std::uint64_t>& names) {
    for (auto& object : table_->objects) {
        auto* space = std::get_if<schema::Namespace>(&object.what);
        if (space == nullptr || !space->own) continue;
        for (auto& mount : space->own->mounts) {
            const auto known = mount.pids ? names.find(*mount.pids) : names.end();
            mount.pids = known == names.end() ? std::nullopt : std::optional(known->second);
        }
    }
}

Result<std::int64_t> ObjectTable::owner_of_pids(const Holder& holder) {
    const Fd space(::open((proc_folder(holder) + "ns/pid").c_str(), O_RDONLY | O_CLOEXEC));
    if (!space) return fail_errno("its pid namespace");
    const Fd owner(::ioctl(space.get(), NS_GET_USERNS));
    if (!owner) return fail_errno("the owner of its pid namespace");
    const auto given = TRY(given_user_namespace(holder));
    return TRY(enter_own(*table_, holder, given, owner.get())).object;
}

Result<std::vector<std::int64_t>> ObjectTable::namespaces(const Holder& holder) {
    const auto given = TRY(given_user_namespace(holder));
    struct Entered {
        int depth, user;  // what is of a user namespace is entered before the next one below
        std::int64_t object;
    };
    std::vector<Entered> entered;
    const auto enter = [&](int fd) -> Result<Kept> {
        auto kept = enter_own(*table_, holder, given, fd);
        if (!kept) return std::unexpected(std::move(kept.error()).in(name_of(holder)));
        return *kept;
    };
    for (const char* name : {"user", "cgroup", "ipc", "mnt", "net", "uts"}) {
        const std::string path = fmt::format("{}ns/{}", proc_folder(holder), name);
        const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        const auto ours = inode_at(fmt::format("/proc/self/ns/{}", name));
        if (!fd || !ours) continue;  // a kernel without this type
        const auto its = TRY(inode_behind(fd.get()));
        if (its == *ours) continue;
        const auto kept = TRY(enter(fd.get()));
        if (kept.object < 0) continue;
        const bool is_user = std::string_view(name) == "user";
        entered.push_back({kept.depth - (is_user ? 1 : 0), is_user ? 1 : 0, kept.object});
        // Those above it, so that what belongs to them can be entered before.
        for (Fd below(is_user ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1); below;) {
            Fd above(::ioctl(below.get(), NS_GET_PARENT));
            if (!above) break;
            const auto parent = TRY(enter(above.get()));
            if (parent.object < 0) break;
            entered.push_back({parent.depth - 1, 1, parent.object});
            below = std::move(above);
        }
    }
    std::ranges::sort(entered, {}, [](const Entered& each) { return std::pair(each.depth, each.user); });
    std::vector<std::int64_t> result;
    for (const auto& each : entered) result.push_back(each.object);
    return result;
}

}  // namespace cairn::capture
