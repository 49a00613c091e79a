// The command line of the verbs that ask the coordinator something.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::control {

struct Options {
    std::string verb;
    std::string session;            // "" for the environment's, or the default
    std::string checkpoint_folder;  // checkpoint: absolute, "" for the session's
    std::optional<double> timeout;  // checkpoint: seconds
    std::optional<double> seconds;  // interval
    std::string files, with;        // common/files_policy.h
    bool kill = false, json = false, quiet = false, self_contained = false, without_strangers = false,
         track_mem = false;
    bool witness = false;
    bool stacks = false, waits = false;  // list
    std::vector<std::string> pids;       // list --stacks: of these only
    std::string external;                // common/external_policy.h, or ""
    std::string landlock;                // common/landlock_policy.h, or ""
    std::string compress;                // common/compression.h, or ""
};

// `words`: the verb and what follows it. Errors are ExitCode::usage.
[[nodiscard]] Result<Options> read_options(std::span<char* const> words);

}  // namespace cairn::control
