// One generation as one file: a tar archive (pax), compressed or not, that tar(1) reads as well.
#pragma once

#include <cstdint>
#include <string>

#include "cli/generations/find.h"

namespace cairn::generations {

// Writes `file` ("-": standard output), which appears when it is whole. What the generation needs of earlier
// ones is in it. Compressed by zstd or gzip where the name ends in .zst, .tzst, .gz or .tgz. Returns its size
// in bytes (0 of standard output). Errors: ExitCode::damaged where the generation isn't whole; errno.
[[nodiscard]] Result<std::uint64_t> export_to(const std::string& file, const Generation& generation);

// Unpacks it below the folder `into`, which is made if it is missing, as <cid>/<generation>; where that is
// there already and is the same, it is left. Returns the generation's folder. Errors: ExitCode::damaged where
// it is no such archive; ExitCode::refused where another generation has its place.
[[nodiscard]] Result<std::string> import_from(const std::string& file, const std::string& into);

}  // namespace cairn::generations
