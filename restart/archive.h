// A checkpoint that was carried here as one file.
#pragma once

#include <string>

#include "common/error.h"

namespace cairn::restart {

// What `cairn export` has written is unpacked, by `cairn import`, below $CAIRN_CKPTDIR or the current folder;
// that checkpoint's folder. A path that is no regular file is returned as it is. Errors: cairn import's,
// which has said why.
[[nodiscard]] Result<std::string> unpacked(const std::string& path);

}  // namespace cairn::restart
