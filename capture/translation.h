// Threads stopped in the middle of a wrapper that translates ids.
#pragma once

#include "capture/group.h"

namespace cairn::capture {

// A thread may hold an id of the kernel's in a register: between a call's answer and its translation, or
// between the translation of an argument and the call. After a restart the kernel calls that process, or that
// System V object, something else; that holds for a program that was never restarted, too, whose ids are the
// kernel's. And what a System V call has done may not yet be noted in the region (Region::ipc): a new id, a
// promise of SEM_UNDO. So a thread that is found inside the hijack library, or in libc called from there
// (hijack/next.h), runs on until it has left it, or stands at a system call. A call that takes ids is then
// made to look as if it had been interrupted before it did anything: its arguments are translated with those
// of all sleeping calls (common/pid_arguments.h, common/ipc_arguments.h). No system call is made on the
// way but those by which a thread asks about itself, and a message to an address is sent, where that has
// not to wait: the address is in memory, and the host may have another one after the restart. Ids in memory
// (a path, a struct) can't be seen here: their wrappers look again when the call has failed (hijack/ids.h,
// hijack/proc_path.h). Should the capture die on the way, the program goes on: the kernel forgets the stops
// at system calls together with their tracer (PTRACE_O_TRACESYSGOOD: what is left over of one is no signal's
// number), while the trap of a single step would stay and kill. To be called when every thread of the group
// stands still; leaves them so.
void leave_translations(StoppedProcess& process);

}  // namespace cairn::capture
