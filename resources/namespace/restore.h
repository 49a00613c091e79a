// Namespaces of the group's own.
#pragma once

#include "resources/restore/opening.h"

namespace cairn::restart {

// One as it was. `owner`: the user namespace that it is to belong to, -1: the tool's. Refused where only
// root, or the user who had made it, may.
[[nodiscard]] Result<Fd> make_namespace(const schema::Namespace& saved, const schema::OwnNamespace& own,
                                        int owner);

}  // namespace cairn::restart
