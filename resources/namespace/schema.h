// What an image says of namespaces (namespaces(7)): of those that the group has made for itself, and of
// descriptors of any: open("/proc/self/ns/net", O_RDONLY).
#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <vector>

#include "common/schema/clock_lead.h"
#include "common/schema/field.h"
#include "resources/namespace/schema_links.h"

namespace cairn::schema {

// Named as in /proc/PID/ns. The values are what ioctl(NS_GET_NSTYPE) says.
enum class NamespaceType : std::int32_t {
    cgroup = CLONE_NEWCGROUP,
    ipc = CLONE_NEWIPC,
    mnt = CLONE_NEWNS,
    net = CLONE_NEWNET,
    pid = CLONE_NEWPID,
    time = CLONE_NEWTIME,
    user = CLONE_NEWUSER,
    uts = CLONE_NEWUTS,
};

template <>
struct EnumNames<NamespaceType> {
    static constexpr auto table =
        std::to_array<std::pair<NamespaceType, std::string_view>>({{NamespaceType::cgroup, "cgroup"},
                                                                   {NamespaceType::ipc, "ipc"},
                                                                   {NamespaceType::mnt, "mnt"},
                                                                   {NamespaceType::net, "net"},
                                                                   {NamespaceType::pid, "pid"},
                                                                   {NamespaceType::time, "time"},
                                                                   {NamespaceType::user, "user"},
                                                                   {NamespaceType::uts, "uts"}});
};

// A file of a file system in memory that only a mount namespace has.
struct MountedFile {
    std::string path;                // below the mount point; "": its root
    std::uint32_t mode = 0;          // with its type
    std::uint32_t uid = 0, gid = 0;  // as they are read in the namespace
    std::int64_t mtime_ns = 0;
    std::uint64_t device = 0;  // of a device
    std::string target;        // of a symbolic link; of a regular file: an earlier path that is the same file
    Bytes contents;            // of a regular file
};

struct Mount {  // mount_namespaces(7), and proc(5) of /proc/PID/mountinfo
    std::string point;
    std::string outside;  // path outside of the namespace of what is mounted there; "": it is nowhere else
    std::string inside;   // of what is nowhere else: path in the namespace by which an earlier mount shows it
    std::string type, source;   // of what is nowhere else: the file system's
    std::string data;           // the same: its options
    std::string options;        // of the mount: "ro,nosuid"
    bool inherited = false;     // it is mounted outside at the same place: the namespace began with it
    std::optional<bool> along;  // mounted outside at `outside`: it came with the folder above it (MS_REC)
    bool shared = false;        // what is mounted in it later is seen in copies of it
    bool receives = false;      // what is mounted in the original outside later is seen in it
    bool bindable = true;       // MS_UNBINDABLE: false
    std::vector<MountedFile> files;
    std::optional<std::uint64_t>
        pids;  // of proc: OwnPids::space of the pid namespace that it shows; none: another
};

// One that isn't the session's: clone(2), unshare(2). Maps and names are as its own processes read them.
struct OwnNamespace {
    std::int64_t owner = -1;        // Object id of the user namespace that it belongs to (of a user
                                    // namespace: its parent); -1: the one that the restart is in
    std::uint32_t creator = 0;      // of a user namespace: the user who has all rights in it
    std::string uid_map, gid_map;   // of a user namespace: /proc/PID/uid_map, gid_map; "": not set
    bool set_groups = true;         // of a user namespace: setgroups(2) is allowed (/proc/PID/setgroups)
    std::string host_name, domain;  // of a uts namespace
    bool loopback_up = false;       // of a net namespace: ip(8), "lo"
    std::vector<Mount> mounts;      // of a mnt namespace: what is mounted on goes first
    // Of a mnt namespace: Object id of the IPC namespace whose queues a file system of its own shows
    // (mqueue); none: there is none, or those of the one that the restart is in
    std::optional<std::int64_t> queues;
    std::optional<std::int64_t> network;  // the same: the network whose interfaces it shows (sysfs)
    // Of a net namespace: interfaces besides lo, and lo if it has other addresses than it always has
    std::optional<std::vector<Link>> links;
    std::optional<std::vector<Bytes>> routes;  // of a net namespace: a struct rtmsg and its attributes each
    std::optional<ClockLead> clocks;           // of a time namespace
};

struct Namespace {
    static constexpr std::string_view kind = "namespace";
    NamespaceType type = NamespaceType::net;
    std::optional<OwnNamespace> own;  // this is one of the group's own, and no descriptor
    std::optional<std::int64_t> of;   // a descriptor: Object id of the own namespace; none: its holder's
};

template <Struct<MountedFile> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(path);
    CAIRN_FIELD(mode);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
    CAIRN_FIELD(mtime_ns);
    CAIRN_FIELD(device);
    CAIRN_FIELD(target);
    CAIRN_FIELD(contents);
}

template <Struct<Mount> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(point);
    CAIRN_FIELD(outside);
    CAIRN_FIELD(inside);
    CAIRN_FIELD(type);
    CAIRN_FIELD(source);
    CAIRN_FIELD(data);
    CAIRN_FIELD(options);
    CAIRN_FIELD(shared);
    CAIRN_FIELD(receives);
    CAIRN_FIELD(bindable);
    CAIRN_FIELD(inherited);
    CAIRN_FIELD(along);
    CAIRN_FIELD(files);
    CAIRN_FIELD(pids);
}

template <Struct<OwnNamespace> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(owner, -1, INT64_MAX);
    CAIRN_FIELD(creator);
    CAIRN_FIELD(uid_map);
    CAIRN_FIELD(gid_map);
    CAIRN_FIELD(set_groups);
    CAIRN_FIELD(host_name);
    CAIRN_FIELD(domain);
    CAIRN_FIELD(loopback_up);
    CAIRN_FIELD(mounts);
    CAIRN_FIELD(queues);
    CAIRN_FIELD(network);
    CAIRN_FIELD(links);
    CAIRN_FIELD(routes);
    CAIRN_FIELD(clocks);
}

template <Struct<Namespace> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(type);
    CAIRN_FIELD(own);
    CAIRN_FIELD(of);
}

}  // namespace cairn::schema
