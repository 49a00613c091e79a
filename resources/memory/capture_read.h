// Reads an inode from its beginning to its end, but for its holes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/error.h"

namespace cairn::capture {

// Is given what lies at `offset`, a page's begin; whole pages, but at the end. Called by two threads at a
// time.
using PutContents = std::function<Result<>(std::uint64_t offset, std::span<const std::uint8_t> data)>;

struct Reading {
    std::uint64_t block;  // pieces end where an offset is a multiple of it; image_max_run at most
    // Whether a piece needn't be read. By two threads at a time.
    std::function<bool(std::uint64_t offset, std::uint64_t bytes)> is_known;
    PutContents put;
};

// `bytes` of the file behind `fd`, which is called `path` in messages; its position stays where it is.
[[nodiscard]] Result<> read_contents(int fd, std::uint64_t bytes, const std::string& path,
                                     const Reading& reading);

}  // namespace cairn::capture
