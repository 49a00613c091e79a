// How the image files of a checkpoint's folder are called.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/schema/process.h"

namespace cairn::schema {

[[nodiscard]] inline std::string image_name(ProgramId process) {
    return fmt::format("p{}.image", process);
}

// Of an image of an earlier generation that this one has a link to. `id`: the image's own (ImageHeader::id),
// so that the name is the same in every generation.
[[nodiscard]] inline std::string earlier_image_name(std::uint64_t id) {
    return fmt::format("e{:016x}.image", id);
}

// Whose pages these are, and which file has them.
[[nodiscard]] inline std::string image_name(const Borrowed& part) {
    return part.file ? *part.file : image_name(part.from);
}

// A name in the folder, and no way out of it.
[[nodiscard]] inline bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
           name.find('\0') == std::string_view::npos;
}

}  // namespace cairn::schema
