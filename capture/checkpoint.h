// A checkpoint of one host's processes, as a list of passes: docs/architecture.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capture/report.h"
#include "capture/session_regions.h"
#include "common/compression.h"
#include "common/external_policy.h"
#include "common/schema/manifest.h"

namespace cairn::capture {

struct Request {
    std::string directory;  // exists; the images go there
    std::string cid, session;
    std::string pages;  // Session::pages()
    std::int32_t generation = 0;
    std::uint64_t capture = 0;  // what Region::capture holds
    bool self_contained = false;
    ExternalPolicy external = ExternalPolicy::reset;
    std::string files, with;  // common/files_policy.h
    Compression compression;  // of images
    bool hold = false;  // the processes stand still until the coordinator closes its end: it kills them first
    std::vector<pid_t> members;
    std::string host;                // "" or what this host is called in the computation
    bool without_strangers = false;  // who belongs to the group and isn't registered is left out, and named
    bool joint = false;              // other hosts take their parts at the same time
    bool sync_files = false;         // what the programs have written is on the disk, too, before it counts
};

// Complete and durable images of every member, or an error with every member going on. `finished` is told of
// the manifest when all is durable, and before the processes go on if they are to be held.
[[nodiscard]] Result<> checkpoint(const Request& request, SessionRegions& regions, Reporter& reporter,
                                  const std::function<void(const schema::Manifest&)>& finished);

}  // namespace cairn::capture
