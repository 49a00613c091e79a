// Namespaces of the group's own, for descriptors of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "resources/capture/table.h"

namespace cairn::capture {

// The object of a namespace that a process of the group was found to be in (ObjectTable::namespaces()).
[[nodiscard]] std::optional<std::int64_t> own_namespace(const Table& table, const Inode& inode);

// The network namespace of the group's own that a socket was made in, to which it belongs whoever has it, by
// the object's id; -1: it is of ours.
[[nodiscard]] Result<std::int64_t> own_network_of(Table& table, const Description& found);
// Work in a network or IPC namespace of the group's own, by the object's id; -1: ours. Users are those of the
// IPC namespace's own user namespace, and as we know them for a network.
[[nodiscard]] Result<> in_own_space(const Table& table, std::int64_t space,
                                    const std::function<Result<>()>& work);
// The IPC namespaces of the group's own, and the one that a process is in; -1: ours.
[[nodiscard]] std::vector<std::int64_t> own_ipcs(const Table& table);
[[nodiscard]] std::int64_t own_ipc_of(const Table& table, const Holder& holder);
// What the clocks of programs that are in no time namespace of the group's own show more than the machine's.
[[nodiscard]] proc::ClockOffsets given_clocks(const Table& table);
// Has the group made any namespace for itself?
[[nodiscard]] bool has_own_namespaces(const Table& table);
// What the kernel tells of sockets there; the table's own for ours.
[[nodiscard]] Result<SockDiag*> sock_diag_of(Table& table, std::int64_t network);

// What is mounted in this mount namespace, which belongs to the user namespace `owner` (-1: ours). Refused is
// what a restart could mount nowhere: another file system than in memory that isn't mounted outside.
struct FoundMounts {
    std::vector<schema::Mount> mounts;
    std::set<int> ids;  // as fdinfo says them: mnt_id
};
// `procs`: by device (as mountinfo says it), the pid namespaces of the group's own that proc was found to
// show; who is in a user namespace below isn't told by a proc of one further out.
using Procs = std::map<std::string, std::uint64_t>;
[[nodiscard]] Result<FoundMounts> find_mounts(int owner, int space, Procs& procs);

// The mount namespace of the group's own that a process is in, by the object's id; none: it is in ours.
[[nodiscard]] std::optional<std::int64_t> own_mounts_of(const Table& table, const Holder& holder);
// Is this one of its mounts?
[[nodiscard]] bool has_mount(const Table& table, std::int64_t space, int id);
// Is it proc of a pid namespace of the group's own, by the device that stat(2) tells of its files?
[[nodiscard]] bool shows_inner_pids(const Table& table, dev_t device);
// A path that the kernel shows of a file leads to it in this namespace. Where it is outside; the path itself
// if it leads there outside as well, or nothing does.
using IsIt = std::function<bool(const struct stat&)>;
[[nodiscard]] std::string path_outside(const Table& table, std::int64_t space, const std::string& path,
                                       const IsIt& is_it);

}  // namespace cairn::capture
