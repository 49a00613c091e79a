// A set of ids as one word of a command line: `27113,27120-27127`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace cairn {

// Ascending; neighbours are one range. "" for none.
[[nodiscard]] std::string id_list(const std::set<KernelId>& ids);

// Nothing where a word is no number or range of positive ids, or a range has more than 2^22 (PID_MAX_LIMIT,
// include/linux/threads.h). "" is the empty set.
[[nodiscard]] std::optional<std::set<KernelId>> read_id_list(std::string_view text);

}  // namespace cairn
