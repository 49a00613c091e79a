// Other commands: cairn's own, and Slurm's (scontrol, srun). Slurm's library is never linked, its commands
// are asked.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::job {

using Words = std::vector<std::string>;

struct Ended {
    int code = 0;     // the exit code; 128 and the signal's number, as shells have it
    std::string out;  // what was printed
};

enum class Errors { shown, taken };  // where a command's stderr goes: where ours does, or with what it prints

// Runs a command to its end and takes what it prints. A command
// that takes longer is killed, and ExitCode::timed_out: Slurm's commands wait for a controller that is gone.
[[nodiscard]] Result<Ended> run_command(const Words& words, std::chrono::seconds patience,
                                        Errors errors = Errors::shown);

// As above; what it prints, and an Error where its exit code isn't 0.
[[nodiscard]] Result<std::string> ask_command(const Words& words, std::chrono::seconds patience);

enum class Standing { ours, alone };

// Starts a command with our standard descriptors, or alone: in a session of its own, with none but /dev/null.
// No signal is blocked in it.
[[nodiscard]] Result<pid_t> start_command(const Words& words, Standing standing = Standing::ours);

// The exit code of a wait status as shells tell it.
[[nodiscard]] int exit_code_of(int status);

}  // namespace cairn::job
