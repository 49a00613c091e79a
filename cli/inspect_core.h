// A process of a checkpoint as an ELF core file (core(5), elf(5)), for gdb, lldb and what else reads cores.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/inspect_load.h"
#include "common/error.h"

namespace cairn::inspect {

struct Core {
    std::string file;
    ProgramId pid;
    std::string name;
    std::uint64_t bytes = 0, stored = 0;  // of the file, and of what isn't a hole in it
    std::vector<std::string>
        unknown_files;  // mapped files that are gone or have changed: their pages aren't in it
};

// Writes a new file: one that is there is refused, and one that failed leaves none. Holds what the kernel's
// own core of the process would (coredump_filter as it is by default): its memory but for pages of files that
// it hasn't changed, which debuggers read there. Errors: ExitCode::refused for a zombie, ExitCode::damaged
// for an image, ExitCode::failed with errno where it can't be written.
[[nodiscard]] Result<Core> write_core(const Checkpoint& checkpoint, const LoadedProcess& process,
                                      const std::string& file);

// The notes (PT_NOTE) alone: threads with their registers, the process, auxv, mapped files.
[[nodiscard]] std::string core_notes(const Checkpoint& checkpoint, const LoadedProcess& process);

[[nodiscard]] std::string as_text(const std::vector<Core>& cores);
[[nodiscard]] nlohmann::json as_json(const std::vector<Core>& cores);

}  // namespace cairn::inspect
