// A userfaultfd(2) watches the memory of the process that has made it.
#pragma once

#include "resources/restore/objects.h"
#include "restart/rebuild/hand.h"

namespace cairn::restart {

// In the process whose memory it is, which has all of it by now. Returns the descriptor's number there, which
// is any free one. Errors: ExitCode::refused where this kernel or this user can't have it.
[[nodiscard]] Result<int> make_userfaultfd(const Hand& owner, const schema::Object& object,
                                           const schema::Userfaultfd& saved);

}  // namespace cairn::restart
