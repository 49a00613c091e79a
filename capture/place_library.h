// Gives a process that doesn't load libcairn.so what a checkpoint needs in it: the library, whose agent alone
// is used, and the session's region. Both are mapped by system calls that a stopped thread makes for us. They
// stay, as they do in programs that load the library, go into the image, and are there for the next
// checkpoint; the next exec takes them away.
#pragma once

#include <sys/types.h>

#include "capture/own_library.h"
#include "capture/session_regions.h"
#include "common/error.h"
#include "common/program_address.h"

namespace cairn::capture {

struct Placed {
    ProgramAddress region_at, door;
};

// `tid`: a thread that stands still by a stop of the kernel's (event_stop), as do all the others of its
// process. Its registers and its mask are afterwards what they were. Should we be killed between the first
// call and the last, the process goes on at the wrong place and ends; it is a quarter of a millisecond, once
// in the life of a process. `region`: that of the user whom it runs as.
[[nodiscard]] Result<Placed> place_library(pid_t tid, const OwnLibrary& library, const SessionRegion& region);

}  // namespace cairn::capture
