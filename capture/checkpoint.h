// A checkpoint of one host's processes, as a list of passes: docs/architecture.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "capture/report.h"
#include "common/region.h"
#include "common/schema/manifest.h"

namespace cairn::capture {

struct Request {
    std::string directory;  // exists; the images go there
    std::string cid, session;
    std::int32_t generation = 0;
    std::uint64_t capture = 0;  // what Region::capture holds
    bool self_contained = false;
    std::vector<pid_t> members;
};

// Complete and durable images of every member, or an error with every member going on.
[[nodiscard]] Result<schema::Manifest> checkpoint(const Request& request, Region& region, Reporter& reporter);

}  // namespace cairn::capture
