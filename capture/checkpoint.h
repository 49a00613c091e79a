// A checkpoint of one host's processes, as a list of passes: docs/architecture.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture/report.h"
#include "capture/session_regions.h"
#include "common/compression.h"
#include "common/external_policy.h"
#include "common/fd.h"
#include "common/landlock_policy.h"
#include "common/schema/manifest.h"

namespace cairn::capture {

// The userfaultfd by which a process has marks, and the image as which pages that have one are still.
struct KeptMarks {
    pid_t pid = 0;  // the kernel's
    std::uint64_t image = 0;
    std::shared_ptr<Fd> userfault;
};

struct Request {
    std::string directory;  // exists; the images go there
    std::string cid, session;
    std::string pages;  // Session::pages()
    std::int32_t generation = 0;
    std::uint64_t capture = 0;  // what Region::capture holds
    bool self_contained = false;
    bool track_mem = false;        // the kernel is asked which pages were written to
    std::vector<KeptMarks> marks;  // since the last checkpoint
    ExternalPolicy external = ExternalPolicy::reset;
    LandlockPolicy landlock = LandlockPolicy::refuse;
    std::string files, with;  // common/files_policy.h
    Compression compression;  // of images
    bool hold = false;  // the processes stand still until the coordinator closes its end: it kills them first
    std::vector<pid_t> members;
    std::string host;                // "" or what this host is called in the computation
    bool without_strangers = false;  // who belongs to the group and isn't registered is left out, and named
    bool joint = false;              // other hosts take their parts at the same time
    bool sync_files = false;         // what the programs have written is on the disk, too, before it counts
};

using Finished = std::function<void(const schema::Manifest&, const std::vector<KeptMarks>&)>;

// Complete and durable images of every member, or an error with every member going on. `finished` is told of
// the manifest when all is durable, and before the processes go on if they are to be held; and of the marks
// that the next checkpoint can use.
[[nodiscard]] Result<> checkpoint(const Request& request, SessionRegions& regions, Reporter& reporter,
                                  const Finished& finished);

}  // namespace cairn::capture
