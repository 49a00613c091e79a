// Our own hijack library as the kernel knows it: which file it is, and where in it the Door lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/proc.h"
#include "common/region_mapping.h"

namespace cairn::capture {

struct OwnLibrary {
    struct Segment {  // PT_LOAD
        std::uint64_t address = 0, offset = 0, in_file = 0, in_memory = 0;
        int protection = 0;  // PROT_*
    };
    std::string path;
    FileKey file;
    // How far these lie behind where the file's first byte is mapped.
    std::uint64_t door = 0, entry = 0, finish = 0, park = 0, take = 0;
    std::vector<Segment> segments;

    // `path` of libcairn.so. Errors: it can't be read, or isn't of this version.
    [[nodiscard]] static Result<OwnLibrary> read(const std::string& path);

    // Of the Door in a process with these mappings; none if it has not mapped this file.
    [[nodiscard]] ProgramAddress door_in(const std::vector<proc::MapLine>& maps) const;
};

// Whether a line of a process's maps shows this file.
[[nodiscard]] inline bool shows(const proc::MapLine& line, const FileKey& file) {
    return line.inode == file.inode && line.major == file.major && line.minor == file.minor;
}

}  // namespace cairn::capture
