// Pid namespaces that the programs have made. The first process of one can only be born by who has called
// unshare(2): a child of its parent's does that, and gives birth to it as a child of the parent (clone3(2),
// CLONE_PARENT).
#pragma once

#include <functional>

#include "resources/restore/objects.h"
#include "restart/computation.h"

namespace cairn::restart {

// In that child: into the user namespace that the pid namespace is to belong to, if it is one of the
// programs' own, and on the way into what belongs to those around it, as the user of its first process.
// `around`: the one that the caller is in, by its object's id; -1: none of the programs' own. What it may do
// in there it and its children may still do when they have executed a program. Returns an errno.
[[nodiscard]] int enter_owner_of_pids(const schema::Process& first, std::int64_t around,
                                      const Computation& computation, const ObjectSet& objects);

// When all first processes are there: proc of their pid namespaces is mounted in the programs' mount
// namespaces.
[[nodiscard]] Result<> mount_inner_procs(const Computation& computation, const ObjectSet& objects,
                                         const std::function<KernelId(ProgramId)>& kernel_id);

}  // namespace cairn::restart
