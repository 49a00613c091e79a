// Namespaces of the group's own.
#pragma once

#include "resources/restore/opening.h"

namespace cairn::restart {

struct MadeNamespace {
    Fd space;
    Fd root;  // of a mount namespace: its root folder (O_PATH)
};

// One as it was. `owner`: the user namespace that it is to belong to, -1: the tool's. Refused where only
// root, or the user who had made it, may.
[[nodiscard]] Result<MadeNamespace> make_namespace(const schema::Namespace& saved,
                                                   const schema::OwnNamespace& own, int owner);

// In a process that has just got a mount namespace of its own (unshare(2)): what was mounted there.
[[nodiscard]] Result<> build_mounts(const std::vector<schema::Mount>& mounts);

}  // namespace cairn::restart
