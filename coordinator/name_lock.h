// The lock of a session that outlives its folder.
//
// The lock file is gone when somebody removes the session's folder, and a coordinator started then would be a
// second one of that name. An abstract socket's name is the kernel's and stays as long as its holder. Another
// user may take the name before us (anybody may): the kernel tells who he is, and we do without.
#pragma once

#include <sys/types.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/session.h"

namespace cairn::coordinator {

struct NameLock {
    Fd held;          // listening; who connects wants the holder to look after its folder
    pid_t other = 0;  // our user's coordinator that holds it, told just now to look after its folder
};

// Errors: out of descriptors, and the like.
[[nodiscard]] Result<NameLock> take_name(const Session& session);

}  // namespace cairn::coordinator
