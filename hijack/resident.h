// What the library knows in a process, and how the process tells the coordinator of itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/region_ops.h"

namespace cairn::hijack {

// The one object of the library. Everything stays zero and the wrappers go straight to libc if the program
// was not started under a session or its region can't be mapped: the program must run in any case.
struct Resident {
    Region* region = nullptr;
    const char* region_path = "";
    const char* library_path = "";
    std::atomic<bool> root_changed = false;  // chroot was called
    std::atomic<bool> yama = false;          // the kernel asks who may trace this process
    std::atomic<std::int32_t> pid = 0;       // of who has been found to be in the coordinator's pid namespace
    std::atomic<std::uint64_t> ipc_asked = 0;  // own_ipc(): which process, and in which of its lives
    std::atomic<std::uint64_t> ipc_space = 0;  // what the answer was
    char paths[8192] = {};                     // one after the other, so that both are on one page as a rule
};
extern constinit Resident resident;

inline Region* region() {
    return resident.region;
}

// After a restart the program and we ourselves remember the path of the session that it was started in; the
// region says which one it is in now.
inline const char* region_path() {
    return region() != nullptr && region()->path[0] != '\0' ? region()->path : resident.region_path;
}

// May the region be out of reach of what this process executes: as another user, or under another root?
bool elsewhere();

// The process has become another user, if it has: it may write into that user's region only from now on.
// Waits for the coordinator then; a process that gets none there is no member any more, and its slot says so.
// Keeps errno.
void user_has_changed();

// Whether this process may speak of births: a child of a raw clone has its parent's memory, and may be in a
// pid namespace of its own (bubblewrap makes it so), where its ids, and those of its children, are other
// processes' outside. It is no member then, and has no region any more.
bool speaks_by_its_own_ids();
// In a child of the bare clone that has a copy of its parent's memory.
void born_by_clone();

// Is this process in another IPC namespace than the coordinator? undo_space() of it; 0: it isn't. What is
// there has the ids that the kernel says, and is found by the capture as it is. 0 where /proc can't be read,
// too. Keeps errno.
std::uint64_t own_ipc();
// It may be in another one now.
void ipc_may_have_changed();

// The slot of this process, or no_slot. Looked up by the pid, never remembered: a child of a raw clone has
// the memory of its parent, and a restart may have given the process another slot.
std::int32_t own_slot();

// This process calls landlock_restrict_self(2): it, its children and what they execute are restricted from
// then on, and say so (Door::restricts).
void note_restriction();

// own_slot(), claimed and filled if there is none.
std::int32_t own_slot_or_new();

// Fills the slot claimed for this new process (no_slot: claims one), unless somebody else has taken it, and
// announces it. Called in a child that has its memory for itself.
void register_child(Birthplace place);

// Looks at a birth from the parent's side: names the child in its slot so that the coordinator can watch over
// it even if it never registers, or gives the slot back if there is no child (`child` is then what fork
// answered, -1). Returns the pid as the program knows it, or that answer. Keeps errno.
ProgramId end_birth(Birthplace place, KernelId child);

// To be called before a process, or a group of them (unknown), is sent a signal that stops it. Under yama's
// ptrace_scope 1 a child can't be traced before it has registered, and one that is stopped before that never
// registers: no checkpoint could be taken until it goes on. Waits for the child, or for all that are on their
// way; 100 ms at most, and not at all where there is no yama. Keeps errno; may run in a signal handler.
void await_births(KernelId child);

// The same for posix_spawn, whose children look for a birth of their parent's themselves: the births of one
// parent are alike. Who has no slot, because it is no member or the table is full, doesn't name itself.
ProgramId end_spawn(Birthplace place, KernelId child);

// Nanoseconds of CLOCK_BOOTTIME.
std::uint64_t boottime_ns();

}  // namespace cairn::hijack
