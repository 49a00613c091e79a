// Inodes whose contents are saved, as the captures of memory, files and System V objects share them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "resources/capture/table.h"

namespace cairn::capture {

// Where the contents of one can be read.
struct Memory {
    std::int64_t object = -1;
    Fd readable;  // none: only through the mappings
    std::vector<std::pair<Holder, Mapping>> mappings;
};

struct MemoriesFound {
    std::map<Inode, Memory> all;
    std::vector<std::pair<std::int64_t, int>> unattached;  // System V segments: object, kernel's id
};

[[nodiscard]] Memory& memory_of(Table& table, Inode inode, const std::string& path);

}  // namespace cairn::capture
