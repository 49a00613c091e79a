// Opens what a name says, and nothing that a link in it leads to (openat2(2), Linux 5.6).
#pragma once

#include <string>

#include "common/error.h"
#include "common/fd.h"

namespace cairn {

// Relative names begin at `folder` (AT_FDCWD: where we are). No symbolic link on the way is followed, those
// of /proc included; with O_PATH | O_NOFOLLOW one at the end is itself what is opened. None and errno (ELOOP:
// a link).
[[nodiscard]] Fd open_exactly(int folder, const std::string& name, int flags);

// `name` within `directory`, on the same terms, and nothing outside of it whatever the name says.
[[nodiscard]] Result<Fd> open_beneath(const std::string& directory, const std::string& name, int flags);

}  // namespace cairn
