// Pass 7 (and 5, for what no copy-on-write child shows): pages go from a process (a copy-on-write child, or
// the stopped process itself) into its image.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/memory/areas.h"
#include "capture/memory/borrow.h"
#include "capture/memory/earlier.h"
#include "capture/report.h"
#include "common/image/writer.h"

namespace cairn::capture {

struct StoreJob {
    pid_t source = 0;  // whose memory is read
    ImageWriter* writer = nullptr;
    schema::Area* area = nullptr;  // its pages are filled in
    ProgramRange range;
    std::string label;                 // for progress
    std::optional<Lender> lender{};    // pages that are the same there are not stored again
    EarlierImages* earlier = nullptr;  // nor those that are what they were; null: no earlier generation
    PageHashes* hashes = nullptr;      // of the pages that are stored are put here
    ProgramId process{};               // whose pages, as images call it
};

// Stores all jobs with two threads. Pages of zeros in anonymous memory are left out. Reports progress. The
// first error ends it: errno of the failed read or write, ENOSPC among them.
[[nodiscard]] Result<> store_pages(std::vector<StoreJob> jobs, Reporter& reporter, std::uint64_t already,
                                   std::uint64_t total);

}  // namespace cairn::capture
