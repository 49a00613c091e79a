// What a checkpoint's folder holds, read and checked: everything that a restart knows of the computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/reader.h"
#include "common/schema/manifest.h"
#include "resources/schema/image.h"

namespace cairn::restart {

struct Computation {
    std::string directory;
    schema::Manifest manifest;
    std::vector<schema::Process> processes;  // of the parts asked for, zombies included
    std::vector<ImageReader> images;         // of each process, in the same order
    std::vector<std::size_t> living;         // indices of those that are no zombies
    ObjectsImage objects;
};

using ObjectIndex = std::map<std::int64_t, const schema::Object*>;  // by id
[[nodiscard]] ObjectIndex index_objects(const schema::Objects& objects);

// The folder of a generation, or one above it: DIR, DIR/latest. Unless `trusted`, nobody but root and who
// restarts can write it, or what leads there (common/folder_trust.h). Errors: ExitCode::damaged or refused,
// by name.
[[nodiscard]] Result<std::string> find_checkpoint(const std::string& directory, bool trusted);

// Of a checkpoint over several hosts, the folder with one host's part; any other is its own. `host`: its
// name, "" for the one with this host's, or the only one that is there.
[[nodiscard]] Result<std::string> folder_of_host(const std::string& directory, const std::string& host,
                                                 bool trusted);

// One after the other.
[[nodiscard]] Result<std::string> find_part(const std::string& directory, const std::string& host,
                                            bool trusted);

// `parts`: numbers as in the manifest; empty: all.
[[nodiscard]] Result<Computation> read_computation(const std::string& directory,
                                                   const std::vector<int>& parts);

// Whose end is the restart's: the one that the computation began with, else the oldest that is nobody's
// child. Not the one with the lowest pid: pids wrap around. There has to be one.
[[nodiscard]] ProgramId first_process(const std::vector<schema::Process>& processes);

}  // namespace cairn::restart
