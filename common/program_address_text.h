// Addresses in messages: as their numbers, "{:#x}" as a rule.
#pragma once

#include <fmt/format.h>

#include "common/program_address.h"

template <>
struct fmt::formatter<cairn::ProgramAddress> : fmt::formatter<std::uint64_t> {
    auto format(cairn::ProgramAddress address, fmt::format_context& context) const {
        return fmt::formatter<std::uint64_t>::format(address.value(), context);
    }
};
