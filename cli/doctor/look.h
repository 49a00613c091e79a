// Small looks at the machine that several probes take.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "cli/doctor/attempt.h"

namespace cairn::doctor {

// The file's first line; "" where it can't be read.
[[nodiscard]] std::string first_line(const std::string& path);
// The words behind "NAME:" in /proc/self/status.
[[nodiscard]] std::string own_status(const std::string& name);
// Of the effective ones; linux/capability.h.
[[nodiscard]] bool has_capability(int number);

// What `what` sees when it is told the id of a process that isn't its descendant, has the same user, and
// allows everybody to trace it: as a capture meets a program.
[[nodiscard]] Observation as_stranger(const std::function<Observation(pid_t)>& what);

// What may forbid a process to look into another one, by the names that tell_refusal() knows.
void note_rules(Observation& seen);

}  // namespace cairn::doctor
