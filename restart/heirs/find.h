// Processes that still have pages in common with their parents since a fork. Such pages can be shared again
// only by another fork, and the exec by which the processes of a restart become their programs gives them up.
// So an heir is born late: not by the forest, but of its restored parent, as soon as that one's memory is in
// place (docs/decisions/0027-shared-pages.md).
#pragma once

#include <map>
#include <vector>

#include "common/ids.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"

namespace cairn::restart {

using Heirs = std::map<ProgramId, ProgramId>;  // each heir's parent, who may be an heir itself

// Those for whom birth by the parent gives all that the forest would: the same session, a group that they can
// have, no children of their own but heirs, and nobody who needs their ids before. Others come back with
// copies of the pages.
[[nodiscard]] Heirs find_heirs(const std::vector<schema::Process>& processes, const schema::Objects& objects);

}  // namespace cairn::restart
