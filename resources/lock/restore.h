// Locks of files. Those of open file descriptions are taken by the tool, which has them all open; a process's
// own (POSIX) and leases, which send it signals, by the restorer in the process, when its last close is over.
#pragma once

#include <span>

#include "resources/restore/objects.h"

namespace cairn::restart {

// Takes the first, and finds out whether the others can be had. Waits `patience_ms` for those who are dying.
// Errors (ExitCode::refused) name file, kind and holder.
[[nodiscard]] Result<> take_locks(const ObjectSet& objects, std::span<const schema::Process> processes,
                                  int patience_ms = 3000);

// What the restorer has to take.
[[nodiscard]] std::vector<schema::FileLock> own_locks(const schema::Process& process);

}  // namespace cairn::restart
