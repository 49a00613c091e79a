// Processes in pid namespaces that the group has made: what they are called in there, and which shapes of
// such namespaces a restart can make again.
#pragma once

#include "capture/collect/collect.h"
#include "capture/stop/stop.h"

namespace cairn::capture {

// StoppedProcess::inner and Zombie::inner. Refused are processes that a restart couldn't put where they are:
// come into one from outside.
[[nodiscard]] Result<> find_inner_ids(StoppedGroup& stopped);

// Process::own_pids but for the owner, which is known with the other namespaces. `in_it`: a living process
// there.
[[nodiscard]] Result<> add_inner_ids(pid_t in_it, const std::optional<proc::InnerIds>& inner,
                                     schema::Process& image);

// Process::children_pids and empty_pids; whether there is really nobody is ObjectTable::nobody_is_born()'s to
// say.
[[nodiscard]] Result<> add_inner_ids_of_children(StoppedProcess& process, StoppedGroup& stopped,
                                                 const ToProgram& to_program, schema::Process& image);

}  // namespace cairn::capture
