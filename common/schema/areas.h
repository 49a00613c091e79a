// Areas of two processes, side by side: what was one mapping before a fork.
#pragma once

#include <algorithm>
#include <vector>

#include "common/schema/process.h"

namespace cairn::schema {

// The one of these, which are in order of their addresses, that has all of [start, end); null: there is none.
[[nodiscard]] inline const Area* area_around(const std::vector<Area>& areas, ProgramAddress start,
                                             ProgramAddress end) {
    const auto behind = std::ranges::upper_bound(areas, start, {}, &Area::start);
    if (behind == areas.begin()) return nullptr;
    const auto& found = *std::prev(behind);
    return end <= found.end ? &found : nullptr;
}

// Whether what lies behind them is the same at each address that both have: anonymous memory, or the same
// part of the same file.
[[nodiscard]] inline bool same_backing(const Area& one, const Area& other) {
    return one.kind == other.kind && one.object == other.object &&
           (one.kind == AreaKind::anonymous ||
            one.file_offset - one.start.value() == other.file_offset - other.start.value());
}

}  // namespace cairn::schema
