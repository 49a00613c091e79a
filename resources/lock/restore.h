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

// Of the leases that the restorer has taken, those that were being broken: somebody opens the file once more,
// and doesn't wait. The holder has had its signal, and gets none: this comes before descriptors get their
// owners. How long the holder may take (lease-break-time, proc(5)) begins anew. A member that waits to open
// the file makes its call again by itself.
[[nodiscard]] Result<> break_leases(const ObjectSet& objects, std::span<const schema::Process> processes,
                                    std::vector<std::string>& notes);

// What the restorer has to take.
[[nodiscard]] std::vector<schema::FileLock> own_locks(const schema::Process& process);

}  // namespace cairn::restart
