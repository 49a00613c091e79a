// Ids in messages: as their numbers.
#pragma once

#include <fmt/format.h>

#include "common/ids.h"

template <class Space>
struct fmt::formatter<cairn::Id<Space>> : fmt::formatter<std::int32_t> {
    auto format(cairn::Id<Space> id, fmt::format_context& context) const {
        return fmt::formatter<std::int32_t>::format(id.number(), context);
    }
};
