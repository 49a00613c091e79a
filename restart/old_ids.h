// Can processes have the ids again that they had?
#pragma once

#include <chrono>
#include <set>
#include <span>
#include <vector>

#include "common/schema/process.h"

namespace cairn::restart {

// Those of processes and threads, and the others, all in the kernel as the programs know them.
[[nodiscard]] std::set<KernelId> ids_of(std::span<const schema::Process> processes,
                                        std::span<const ProgramId> others);

// The sessions and groups of the computation, whose leaders may have ended: their ids are taken as well.
[[nodiscard]] std::vector<ProgramId> leaders_of(std::span<const schema::Process> processes);

// Does nobody have the ids of these processes and their threads, nor `others`, as a process, thread, group or
// session? What is on its way out is waited for, `patience` at most: the dead of the computation itself until
// whoever has inherited them has reaped them, and the group or session of a dead leader until its last child
// has ended; standard error says of whom it waits if it takes long. Somebody may take one of them a moment
// later.
[[nodiscard]] bool old_ids_free(std::span<const schema::Process> processes, std::span<const ProgramId> others,
                                std::chrono::seconds patience);

}  // namespace cairn::restart
