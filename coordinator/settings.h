// What the coordinator was asked to be: command line first, then environment, then defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/error.h"
#include "common/external_policy.h"
#include "common/ids.h"
#include "common/landlock_policy.h"
#include "common/session.h"

namespace cairn::coordinator {

struct Settings {
    std::string session;
    std::string ckptdir;                    // absolute
    std::chrono::milliseconds interval{0};  // 0: checkpoints only when asked for
    std::uint32_t keep = 3;                 // generations; 0: all
    bool daemon = false;
    bool automatic = false;           // ends by itself when its last process has left
    bool self_contained = false;      // images hold unmodified pages of files too
    bool track_mem = false;           // the kernel is asked which pages were written to
    std::string external = "reset";   // common/external_policy.h
    std::string landlock = "refuse";  // common/landlock_policy.h
    std::string files, with;          // common/files_policy.h
    std::string compress = "none";    // common/compression.h
    std::string listen;               // HOST:PORT for relays of other hosts; "": none
    std::string coordinator;          // HOST:PORT of the root, whose relay this one is; "": this is the root
    std::string key_file;             // "": the session's own
    std::string host;                 // what this host is called in the computation
    std::set<KernelId> not_ids;       // daemon: numbers that it leaves to the processes of a restart
    std::chrono::milliseconds linger{10'000};  // automatic: this long after the last process
    // Given on the command line or in the environment: stronger than what an earlier coordinator of the
    // session used.
    bool ckptdir_given = false, interval_given = false, keep_given = false, self_contained_given = false,
         track_mem_given = false, external_given = false, landlock_given = false, files_given = false,
         compress_given = false;
};

// Nothing: help was asked for and has been printed. Errors: ExitCode::usage.
[[nodiscard]] Result<std::optional<Settings>> read_settings(int argc, const char* const* argv);

// `path` made absolute from the current folder; lexically normal.
[[nodiscard]] std::string absolute_path(const std::string& path, const std::string& from = "");

}  // namespace cairn::coordinator
