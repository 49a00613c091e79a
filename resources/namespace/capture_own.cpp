// Namespaces that the group has made for itself: found by the processes that are in them, and looked at by a
// process that goes into each.
#include "resources/namespace/capture_own.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/in_namespace.h"
#include "common/namespace_folder.h"
#include "common/proc.h"
#include "common/region_ops.h"
#include "resources/namespace/capture_links.h"
#include "resources/namespace/capture_visit.h"
#include "resources/namespace/schema_mounts.h"

namespace cairn::capture {
namespace {

struct Kept {
    std::int64_t object = -1;
    int depth = 0;  // of a user namespace: below the session's
};
struct OwnSpace {  // a network or IPC namespace
    schema::NamespaceType type = schema::NamespaceType::net;
    Fd space, owner;  // owner: the user namespace that it belongs to, none: ours
    SockDiag sock_diag;
    std::vector<FarEnd> far_ends;  // of its interfaces
    std::string who;               // is in it, for messages
};
struct OwnNamespaces {
    std::map<Inode, Kept> all;
    std::map<std::int64_t, OwnSpace> spaces;       // by object
    std::map<std::int64_t, std::set<int>> mounts;  // of a mount namespace's object: their ids
    Procs procs;
    std::uint64_t found_at = 0;  // ticks since the machine's boot, when the first was found
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

// Is this time namespace ours, or one that a restart has given to programs so that their clocks go on
// (restart/clock.cpp)?
bool is_given_time(const Table& table, std::uint64_t space) {
    return space == proc::namespace_of("self", "time") ||
           (table.options.region != nullptr && cairn::is_given_time(*table.options.region, space));
}

// Who is in such a one; 0: nobody.
pid_t somebody_given(const Table& table) {
    for (const pid_t pid : table.members)
        if (const auto space = proc::namespace_of(std::to_string(pid), "time");
            space != 0 && is_given_time(table, space))
            return pid;
    return 0;
}

// The user namespace that programs have been given from outside: ours, or the one that an ordinary user's
// restart has made to have a time namespace, to which that belongs. The next restart makes one as well.
Result<Inode> given_user_namespace(const Table& table, const Holder& holder) {
    const auto ours = TRY(inode_at("/proc/self/ns/user"));
    Fd time(::open((proc_folder(holder) + "ns/time").c_str(), O_RDONLY | O_CLOEXEC));
    if (!time) return ours;
    if (!is_given_time(table, TRY(inode_behind(time.get())).number)) {
        const pid_t other = somebody_given(table);
        if (other == 0) return ours;
        time.reset(::open(fmt::format("/proc/{}/ns/time", other).c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!time || TRY(inode_behind(time.get())) == TRY(inode_at("/proc/self/ns/time"))) return ours;
    const Fd owner(::ioctl(time.get(), NS_GET_USERNS));
    return owner ? inode_behind(owner.get()) : Result<Inode>(ours);
}

schema::ClockLead lead_of(const Table& table, const proc::ClockOffsets& offsets) {
    const auto given = given_clocks(table);
    return {offsets.monotonic - given.monotonic, offsets.boottime - given.boottime};
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

void look_at_loopback(Visit& here) {
    const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq wanted{};
    std::strcpy(wanted.ifr_name, "lo");
    const bool up = ::ioctl(any.get(), SIOCGIFFLAGS, &wanted) == 0 && (wanted.ifr_flags & IFF_UP) != 0;
    here.say(up ? "up" : "");
}

// What is found besides what the namespace's object says.
struct Beside {
    std::set<int> mount_ids;
    std::vector<FarEnd> far_ends;
};

Result<> look_into_space(Table& table, const Holder& holder, int owner, int space, schema::NamespaceType type,
                         schema::OwnNamespace& own, Beside& beside) {
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
        own.loopback_up = TRY(Visit::to(owner, space, type, look_at_loopback)).next() == "up";
        FoundLinks found;
        CHECK_OK(in_namespace({space, owner}, [&]() -> Result<> {
            found = TRY(find_links());
            return {};
        }));
        if (!found.links.empty()) own.links = std::move(found.links);
        if (!found.routes.empty()) own.routes = std::move(found.routes);
        beside.far_ends = std::move(found.far_ends);
    } else if (type == Type::time) {
        const auto offsets = proc::clock_offsets_in(TRY(inode_behind(space)).number);
        if (!offsets)
            return fail_code(ExitCode::refused,
                             "has no process whose children are born into it, so what it adds to the clocks "
                             "can't be read, and it can't be saved");
        own.clocks = lead_of(table, *offsets);
    } else if (type == Type::mnt) {
        auto found = TRY(find_mounts(owner, space, table.of<OwnNamespaces>().procs));
        own.mounts = std::move(found.mounts);
        // Mounted by somebody in there.
        const auto shows = [&](const char* system) {
            return std::ranges::any_of(own.mounts, [&](const schema::Mount& mount) {
                return mount.outside.empty() && mount.type == system;
            });
        };
        if (const auto queues = own_ipc_of(table, holder); shows("mqueue") && queues >= 0)
            own.queues = queues;
        if (const auto its = inode_at(proc_folder(holder) + "ns/net"); shows("sysfs") && its)
            own.network = own_namespace(table, *its);
        beside.mount_ids = std::move(found.ids);
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
    Beside beside;
    if (auto seen =
            look_into_space(table, holder, above.object < 0 ? -1 : owner.get(), fd, type, own, beside);
        !seen)
        return std::unexpected(
            std::move(seen.error()).in(fmt::format("its {} namespace", schema::name_of(type))));
    schema::Object& object = table.add(schema::Namespace{type, std::move(own), std::nullopt});
    object.path = name;
    object.flags = O_RDONLY;
    if (!beside.mount_ids.empty()) table.of<OwnNamespaces>().mounts[object.id] = std::move(beside.mount_ids);
    if (type == schema::NamespaceType::net || type == schema::NamespaceType::ipc) {
        const bool is_ours = TRY(inode_behind(owner.get())) == TRY(inode_at("/proc/self/ns/user"));
        table.of<OwnNamespaces>().spaces[object.id] = {
            type,
            Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)),
            is_ours ? Fd() : Fd(::fcntl(owner.get(), F_DUPFD_CLOEXEC, 0)),
            {},
            std::move(beside.far_ends),
            name_of(holder)};
    }
    return all[inode] = {object.id, above.depth + (is_user ? 1 : 0)};
}

}  // namespace

// What leads out of a network, now that all are known.
Result<> capture_links(Table& table) {
    auto& spaces = table.of<OwnNamespaces>().spaces;
    for (auto& [id, space] : spaces) {
        auto& object = table.objects[static_cast<std::size_t>(id)];
        auto& links = std::get<schema::Namespace>(object.what).own->links;
        if (!links) continue;
        for (const FarEnd& end : space.far_ends) {
            const auto link = std::ranges::find(*links, end.index, &schema::Link::index);
            for (const auto& [other, where] : spaces) {
                std::int32_t number = -1;
                if (where.type != schema::NamespaceType::net || other == id) continue;
                CHECK_OK(in_own_space(table, id, [&]() -> Result<> {
                    number = TRY(number_of_network(where.space.get()));
                    return {};
                }));
                if (number == end.network) link->peer_space = other;
            }
            if (!link->peer_space)
                return fail_code(
                    ExitCode::refused,
                    "{}: its net namespace: has the network interface {} (veth), whose other end is in a "
                    "network outside of the "
                    "computation, where a restart could put it nowhere: this can't be saved; take it out, or "
                    "start cairn inside of that network",
                    space.who, link->name);
        }
        for (const auto& link : *links)
            if (link.kind == schema::LinkKind::tun &&
                std::ranges::none_of(table.objects, [&](const auto& each) {
                    const auto* tun = each.template get<schema::Tun>();
                    return tun != nullptr && each.network == id && tun->index == link.index;
                }))
                return fail_code(ExitCode::refused,
                                 "{}: its net namespace: has the network interface {} (tun), which no "
                                 "process of the computation "
                                 "has open, so it can't be saved; take it out, or start cairn inside of that "
                                 "network",
                                 space.who, link.name);
    }
    return {};
}

// Somebody outside who has gone into one (nsenter(1)) stays in the old one. Who was born since the programs
// stood still is a child of theirs, or of ours.
Result<> note_who_else_is_there(Table& table) {
    const auto& own = table.of<OwnNamespaces>();
    if (own.all.empty()) return {};
    for (const pid_t pid : proc::processes()) {
        const auto stat = proc::stat(pid);
        if (table.members.contains(pid) || !stat || stat->start_time >= own.found_at) continue;
        // Whom init hasn't waited for yet names his namespaces still: who has made one for a restart among
        // them.
        if (stat->state == 'Z' || stat->state == 'X') continue;
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

bool shows_inner_pids(const Table& table, dev_t device) {
    return table.of<OwnNamespaces>().procs.contains(fmt::format("{}:{}", major(device), minor(device)));
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
    const auto given = TRY(given_user_namespace(table, found.holder));
    return TRY(enter_own(table, found.holder, given, network.get())).object;
}

Result<> in_own_space(const Table& table, std::int64_t space, const std::function<Result<>()>& work) {
    const auto& spaces = table.of<OwnNamespaces>().spaces;
    const auto found = spaces.find(space);
    if (found == spaces.end()) return work();
    const OwnSpace& there = found->second;
    return in_namespace({there.space.get(), there.owner.get(), there.type == schema::NamespaceType::ipc},
                        work);
}

Result<SockDiag*> sock_diag_of(Table& table, std::int64_t network) {
    auto& spaces = table.of<OwnNamespaces>().spaces;
    const auto found = spaces.find(network);
    if (found == spaces.end()) return &table.sock_diag;
    CHECK_OK(in_own_space(table, network, [&] { return found->second.sock_diag.open(); }));
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
    const auto given = TRY(given_user_namespace(*table_, holder));
    return TRY(enter_own(*table_, holder, given, owner.get())).object;
}

// Nothing but a birth tells it.
Result<bool> ObjectTable::nobody_is_born(const Holder& holder) {
    const Fd space(::open((proc_folder(holder) + "ns/pid_for_children").c_str(), O_RDONLY | O_CLOEXEC));
    if (!space) return fail_errno("the pid namespace of its children");
    const Fd owner(::ioctl(space.get(), NS_GET_USERNS));
    if (!owner) return fail_errno("the owner of the pid namespace of its children");
    const bool is_ours = TRY(inode_behind(owner.get())) == TRY(inode_at("/proc/self/ns/user"));
    auto seen =
        TRY(Visit::to(is_ours ? -1 : owner.get(), space.get(), schema::NamespaceType::pid, [](Visit& here) {
            const pid_t child = ::fork();
            if (child == 0) ::_exit(0);
            here.say(child < 0 && errno == ENOMEM ? "nobody" : "");
            if (child > 0) ::waitpid(child, nullptr, 0);
        }));
    return seen.next() == "nobody";
}

std::vector<std::int64_t> own_ipcs(const Table& table) {
    std::vector<std::int64_t> all;
    for (const auto& [object, space] : table.of<OwnNamespaces>().spaces)
        if (space.type == schema::NamespaceType::ipc) all.push_back(object);
    return all;
}

std::int64_t own_ipc_of(const Table& table, const Holder& holder) {
    if (own_ipcs(table).empty()) return -1;
    const auto its = inode_at(proc_folder(holder) + "ns/ipc");
    return its ? own_namespace(table, *its).value_or(-1) : -1;
}

bool has_own_namespaces(const Table& table) {
    return !table.of<OwnNamespaces>().all.empty();
}

Result<std::vector<std::int64_t>> ObjectTable::namespaces(const Holder& holder) {
    struct Entered {
        int depth, user;  // what is of a user namespace is entered before the next one below
        std::int64_t object;
    };
    std::vector<Entered> entered;
    std::optional<Inode> known_given;
    const auto enter = [&](int fd) -> Result<Kept> {
        if (!known_given) known_given = TRY(given_user_namespace(*table_, holder));
        const Inode given = *known_given;
        auto kept = enter_own(*table_, holder, given, fd);
        if (!kept) return std::unexpected(std::move(kept.error()).in(name_of(holder)));
        return *kept;
    };
    const proc::NamespaceFolder its_numbers(proc_folder(holder));
    const proc::NamespaceFolder our_numbers("/proc/self");
    // What a mount namespace may show comes before it.
    for (const char* name : {"user", "cgroup", "ipc", "net", "mnt", "time", "uts"}) {
        // Nearly everybody is where we are, and all stand still: nothing more is done for him.
        if (const auto number = its_numbers.number_of(name);
            number != 0 && number == our_numbers.number_of(name))
            continue;
        const std::string path = fmt::format("{}ns/{}", proc_folder(holder), name);
        const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        const auto ours = inode_at(fmt::format("/proc/self/ns/{}", name));
        if (!fd || !ours) continue;  // a kernel without this type
        const auto its = TRY(inode_behind(fd.get()));
        if (its == *ours) continue;
        if (std::string_view(name) == "time" && is_given_time(*table_, its.number)) continue;
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

proc::ClockOffsets given_clocks(const Table& table) {
    const pid_t somebody = somebody_given(table);
    return proc::own_clock_offsets(somebody == 0 ? "self" : std::to_string(somebody));
}

proc::ClockOffsets ObjectTable::given_clocks() const {
    return capture::given_clocks(*table_);
}

Result<std::optional<schema::ClockLead>> ObjectTable::clocks_of_children(const Holder& holder) {
    const proc::NamespaceFolder numbers(fmt::format("/proc/{}", holder.pid));
    const auto childrens = numbers.number_of("time_for_children");
    if (childrens == 0 || numbers.number_of("time") == childrens) return std::nullopt;
    return lead_of(*table_, proc::clock_offsets(std::to_string(holder.pid)));
}

}  // namespace cairn::capture
