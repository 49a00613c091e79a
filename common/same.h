// Whether two processes, threads or descriptors have the same thing of the kernel's: kcmp(2). Container
// runtimes forbid kcmp to containers without CAP_SYS_PTRACE; then what else tells is asked, while the
// processes stand still.
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/error.h"

namespace cairn {

// Of this process; a filter isn't taken away again.
[[nodiscard]] bool kcmp_is_allowed();

// False: not, or it can't be told, or one of them has gone.
[[nodiscard]] bool share_memory(pid_t one, pid_t other);

// Threads of the process `pid`. Without kcmp, tables in which the same is open under the same numbers are
// taken for one.
[[nodiscard]] bool share_descriptors(pid_t pid, pid_t one, pid_t other);
// Working directory, root directory and umask. Without kcmp, those that are equal are taken for shared.
[[nodiscard]] bool share_folders(pid_t pid, pid_t one, pid_t other);

// What clone(2) lets processes have in common: CLONE_VM, CLONE_FILES, CLONE_FS, CLONE_SYSVSEM.
enum class Common { memory, descriptors, folders, semaphore_undo };

// Two of these that have it in common, each a thread of a process of its own. They have to stand still; who
// is killed meanwhile may be taken for somebody else who is. Without kcmp none is found. Error: EAGAIN, ...
// where a process had to be made to compare with (semaphore_undo), and can't be.
[[nodiscard]] Result<std::optional<std::pair<pid_t, pid_t>>> find_common(Common what,
                                                                         const std::vector<pid_t>& tids);

// Do these descriptors of ours lead to one open file description?
[[nodiscard]] Result<bool> same_description(int one, int other);

}  // namespace cairn
