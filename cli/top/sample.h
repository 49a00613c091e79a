// What `cairn top` shows, as it is known at one moment.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/events.h"

namespace cairn::top {

struct ProcessRow {
    wire::Process process{};
    bool here = true;          // its figures are this host's to tell
    std::uint64_t memory = 0;  // bytes that are in no file, as a checkpoint stores them
    // At most so many of these bytes have been written since the last checkpoint; none: nobody was there to
    // count from its beginning.
    std::optional<std::uint64_t> dirty{};
    double cpu = 0;        // percent of one processor since the sample before
    char run_state = '?';  // as in proc(5)
};

struct GenerationRow {
    std::uint32_t number = 0;
    std::string folder{};
    std::uint64_t bytes = 0;
    std::int64_t taken_at_ns = 0, pause_ns = 0, total_ns = 0;  // since 1970; how long
    std::int32_t processes = 0;
};

// What the next checkpoint will store, and how long that takes: by the last one's speed.
struct Estimate {
    std::uint64_t bytes = 0;
    std::optional<std::int64_t> total_ns{}, pause_ns{};  // none: there is no last one to go by
    bool at_most = false;                                // more isn't possible, and less is likely
};

struct Sample {
    wire::Status status{};
    std::vector<ProcessRow> processes{};
    std::vector<GenerationRow> generations{};  // the newest first
    std::optional<Estimate> next{};            // none: nothing runs
    std::optional<wire::Progress> progress{};  // of the checkpoint that is under way
    std::string trouble{};                     // why this is not what is now: the coordinator has gone
    std::int64_t now_ns = 0;                   // since 1970
};

// By the processes' memory, what of it is dirty, and the last checkpoint.
[[nodiscard]] std::optional<Estimate> estimate(const Sample& sample);

[[nodiscard]] nlohmann::json as_json(const Sample& sample);

}  // namespace cairn::top
