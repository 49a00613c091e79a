// How the pages of an image come into place when all of them are read before the program goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "common/schema/process.h"
#include "restart/restorer/params.h"

namespace cairn::restart {

struct MemoryPlan {
    std::vector<restorer::Run> runs;
    std::vector<restorer::Unit> units;
    std::vector<restorer::Span> watched, guards;
    std::uint32_t readers = 1;
};

// `huge_pages`: the machine gives them to who asks. `processors`: that the tool may use.
[[nodiscard]] MemoryPlan plan_memory(const schema::Process& process, bool huge_pages, unsigned processors);

// False where /sys/kernel/mm/transparent_hugepage says never, or isn't there.
[[nodiscard]] bool machine_has_huge_pages();

}  // namespace cairn::restart
