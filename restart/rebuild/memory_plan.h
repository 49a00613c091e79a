// How the pages of an image come into place: read before the program goes on, or served when it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/image/page_reader.h"
#include "common/schema/process.h"
#include "restart/heirs/inherit.h"
#include "restart/restorer/params.h"

namespace cairn::restart {

// A run that comes by way of the tool or of the page server, and which image has it, as restorer::Unit::image
// says it.
struct ServedRun : restorer::Run {
    std::uint32_t image = 0;
};

struct MemoryPlan {
    std::vector<restorer::Run> runs;
    std::vector<restorer::Unit> units;
    std::vector<restorer::Span> watched, guards;
    std::vector<restorer::Span> populated;  // hugetlb pages
    std::uint32_t readers = 1;
    std::uint32_t writers = 1;               // threads of the tool's for written_runs
    std::vector<ServedRun> written_runs;     // of compressed images: the tool writes them into the process
    std::vector<ServedRun> lazy_runs;        // that the page server brings
    std::vector<restorer::Span> lazy_areas;  // they lie in
    std::vector<std::string> others;         // images in the folder that have pages of ours as well
    // In an heir: what is there already, and what of it isn't ours.
    std::vector<ProgramRange> inherited;
    std::vector<restorer::Span> drops;
};

// Of 2 MiB, where the runs fill one.
enum class HugePages {
    none,
    either,  // as is faster: the machine gives them to who asks, and the program hasn't asked
    wanted,
};

struct MemoryWishes {
    HugePages huge_pages = HugePages::none;  // of who asks for nothing
    unsigned processors = 1;                 // that the tool may use
    bool lazy = false;                       // where it is exact
};

// `inherited`: what the process has by its birth.
[[nodiscard]] MemoryPlan plan_memory(const schema::Process& process, const MemoryWishes& wishes,
                                     const std::vector<InheritedArea>& inherited = {});

// The process decompresses nothing itself: what it would read of compressed images is left to the tool.
// `images`: its own, then MemoryPlan::others.
void leave_to_tool(const std::vector<PageData>& images, MemoryPlan& plan);

// How many bytes of the process can come lazily.
[[nodiscard]] std::uint64_t lazy_bytes(const schema::Process& process);

// What is the same for all processes that come back on this machine. `lazy`: as MemoryWishes::lazy.
[[nodiscard]] MemoryWishes memory_wishes_here(bool lazy);

}  // namespace cairn::restart
