// Names of files that are put back.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "resources/saved/schema.h"

namespace cairn::restart {

struct Parent {
    Fd folder;  // O_PATH; no link was followed to it
    std::string path, name;
};
[[nodiscard]] Result<Parent> open_parent(const std::string& path);

// Owner, mode and extended attributes of what was made.
[[nodiscard]] Result<> set_attributes(int made, const schema::SavedFile& file, const std::string& path);

// "": it is none, or can't be read.
[[nodiscard]] std::string link_target(const std::string& path);

[[nodiscard]] constexpr timespec time_of(std::int64_t ns) {
    constexpr std::int64_t second = 1'000'000'000;
    const std::int64_t below = (ns % second + second) % second;
    return {(ns - below) / second, below};
}

}  // namespace cairn::restart
