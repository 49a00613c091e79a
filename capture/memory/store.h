// Pass 7 (and 5, for what no copy-on-write child shows): pages go from a process (a copy-on-write child, or
// the stopped process itself) into its image.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/memory/areas.h"
#include "capture/memory/borrow.h"
#include "capture/memory/earlier.h"
#include "capture/memory/marks.h"
#include "capture/memory/still_pages.h"
#include "capture/report.h"
#include "common/image/writer.h"

namespace cairn::capture {

struct StoreJob {
    pid_t source = 0;  // whose memory is read
    ImageWriter* writer = nullptr;
    schema::Area* area = nullptr;  // its pages are filled in
    ProgramRange range;
    std::string_view label;            // for progress; the draft's
    std::optional<Lender> lender{};    // pages that are the same there are not stored again
    EarlierImages* earlier = nullptr;  // nor those that are what they were; null: no earlier generation
    PageHashes* hashes = nullptr;      // of the pages that are stored are put here
    ProgramId process{};               // whose pages, as images call it
    // Pages that the kernel says are as `earlier` has them: everything is read nevertheless, and where they
    // differ it is an error. For debugging; null: nothing is compared.
    const PageRanges* compared = nullptr;
    const StillPages* still = nullptr;  // has the contents of the range; null: `source` has them
};

// Whether pages that are said to be unchanged are read all the same (StoreJob::compared): CAIRN_TRACK_CHECK=1
// in the coordinator's environment.
[[nodiscard]] bool compares_unchanged();

// Of the jobs from `first` on: pages that are unchanged since the newest generation are named where it has
// them, and not read any more. Not those that may be another process's as well.
void name_unchanged(const PageRanges& unchanged, std::vector<StoreJob>& jobs, std::size_t first);

// Stores all jobs with two threads, those of an image side by side. Pages of zeros in anonymous memory are
// left out. Reports progress. The first error ends it: errno of the failed read or write, ENOSPC among them.
[[nodiscard]] Result<> store_pages(std::vector<StoreJob> jobs, Reporter& reporter, std::uint64_t already,
                                   std::uint64_t total);

}  // namespace cairn::capture
