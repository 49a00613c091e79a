// Bytes that are looked for in the memory of a checkpoint's processes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/inspect_load.h"
#include "common/error.h"

namespace cairn::inspect {

struct FoundBytes {
    ProgramId pid;
    std::string name;  // of the process
    ProgramAddress at;
    std::string area;     // "[heap]", a file, "" without a name
    std::string context;  // what stands around them
};

// What is written as C has it: \n, \t, \0, \\, \xNN. Errors: ExitCode::usage for an escape that there isn't,
// and for nothing at all.
[[nodiscard]] Result<std::string> bytes_of(const std::string& written);

// In all memory but pages of files that are as they are in the file. Errors: ExitCode::damaged.
[[nodiscard]] Result<std::vector<FoundBytes>> find_bytes(const Checkpoint& checkpoint,
                                                         const std::string& bytes);

[[nodiscard]] std::string as_text(const std::vector<FoundBytes>& found);
[[nodiscard]] nlohmann::json as_json(const std::vector<FoundBytes>& found);

}  // namespace cairn::inspect
