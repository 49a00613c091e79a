// Numbers of programs' descriptors in messages: as they are.
#pragma once

#include <fmt/format.h>

#include "common/program_fd.h"

template <>
struct fmt::formatter<cairn::ProgramFd> : fmt::formatter<std::int32_t> {
    auto format(cairn::ProgramFd descriptor, fmt::format_context& context) const {
        return fmt::formatter<std::int32_t>::format(descriptor.number(), context);
    }
};
