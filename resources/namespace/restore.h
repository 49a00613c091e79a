// Namespaces of the group's own.
#pragma once

#include <functional>
#include <set>

#include "resources/restore/opening.h"

namespace cairn::restart {

struct MadeNamespace {
    Fd space;
    Fd root;  // of a mount namespace: its root folder (O_PATH)
};

// One as it was. `owner`: the user namespace that it is to belong to, -1: the tool's; `shown`: those of other
// types that its file systems show. Refused where only root, or the user who had made it, may.
[[nodiscard]] Result<MadeNamespace> make_namespace(const schema::Namespace& saved,
                                                   const schema::OwnNamespace& own, int owner,
                                                   std::vector<int> shown);

// Work in a network or IPC namespace of the group's own, by the object's id, which is open; -1: the tool's.
// Users are those of the IPC namespace's own user namespace, and as the tool knows them for a network.
[[nodiscard]] Result<> in_own_space(const Opening& opening, std::int64_t space,
                                    const std::function<Result<>()>& work);
// The same: `saved` is what the image says of that object (null: it has none), `lend` gives descriptors.
[[nodiscard]] Result<> in_own_space(const schema::Object* saved, std::int64_t space,
                                    const std::function<Result<Lent>(std::int64_t object)>& lend,
                                    const std::function<Result<>()>& work);

// For each network that there are sockets of these kinds in, the tool's first: `work` is given its id.
template <class... Saved>
[[nodiscard]] Result<> in_each_network(const Opening& opening,
                                       const std::function<Result<>(std::int64_t network)>& work) {
    std::set<std::int64_t> networks;
    for (const schema::Object& object : opening.objects.objects)
        if ((object.is<Saved>() || ...)) networks.insert(object.network);
    for (const std::int64_t network : networks)
        CHECK_OK(in_own_space(opening, network, [&] { return work(network); }));
    return {};
}

// In a process that has just got a mount namespace of its own (unshare(2)): what was mounted there.
[[nodiscard]] Result<> build_mounts(const std::vector<schema::Mount>& mounts);
// Later, in a process of the pid namespace and of the mount namespace: the rest, which shows that one's
// processes.
[[nodiscard]] Result<> build_late_mounts(const std::vector<schema::Mount>& mounts);

}  // namespace cairn::restart
