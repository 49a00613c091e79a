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

// A System V segment has its id for an inode (newseg(), ipc/shm.c), which another IPC namespace's may have as
// well, and so may other memory without a name: all of it is of one file system of the kernel's.
struct MemoryKey {
    Inode inode;
    std::int64_t space =
        -1;  // the IPC namespace of the group's own that the segment is in, by its object's id
    bool is_segment = false;
    auto operator<=>(const MemoryKey&) const = default;
};

struct UnattachedSegment {
    std::int64_t object = -1;
    int id = -1;  // the kernel's
    std::int64_t space = -1;
};

struct MemoriesFound {
    std::map<MemoryKey, Memory> all;
    std::vector<UnattachedSegment> unattached;
};

[[nodiscard]] Memory& memory_of(Table& table, MemoryKey key, const std::string& path);

}  // namespace cairn::capture
