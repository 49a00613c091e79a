// What an image says of a descriptor of a namespace (namespaces(7)): open("/proc/self/ns/net", O_RDONLY).
#pragma once

#include <sched.h>

#include "common/schema/field.h"

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

struct Namespace {
    static constexpr std::string_view kind = "namespace";
    NamespaceType type = NamespaceType::net;  // of whoever holds it
};

template <Struct<Namespace> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(type);
}

}  // namespace cairn::schema
