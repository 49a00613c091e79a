// Stacks of a checkpoint's threads: unwound in the image's memory, with names and lines out of the mapped
// files and what there is of their debugging information.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/inspect_load.h"
#include "common/error.h"

namespace cairn::inspect {

// A function that was called, or one that the compiler has put into its caller, or one of Python's.
struct Frame {
    ProgramAddress pc;
    std::string function;  // "" unknown; C++ names without their arguments, as gdb has them
    std::string file;      // in the source; "" unknown
    int line = 0;
    std::string module;  // mapped file that has the code; "" none
    bool inlined = false;
    bool python = false;  // a function of Python's: it has neither pc nor module
};

struct Stack {
    ProgramId tid;
    std::string name;
    std::string doing;          // the system call that it is in, or "running"
    std::vector<Frame> frames;  // the innermost first
    std::string broken;         // why it doesn't go on; "" it is whole
};

// Of all threads of a process. Errors: ExitCode::damaged for an image; ExitCode::refused where this cairn was
// built without libdw.
[[nodiscard]] Result<std::vector<Stack>> stacks_of(const Checkpoint& checkpoint,
                                                   const LoadedProcess& process);

// The frames, a line each, and why they don't go on.
[[nodiscard]] std::string frames_text(const Stack& stack);
[[nodiscard]] nlohmann::json thread_json(const Stack& stack);

[[nodiscard]] std::string as_text(const LoadedProcess& process, const std::vector<Stack>& stacks);
[[nodiscard]] nlohmann::json as_json(const LoadedProcess& process, const std::vector<Stack>& stacks);

}  // namespace cairn::inspect
