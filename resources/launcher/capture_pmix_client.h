// An MPI program's PMIx library, looked at from outside: for which answers of its server it waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resources/capture/objects.h"

namespace cairn::capture {

struct PmixClient {
    std::vector<std::uint32_t> awaited;  // tags of questions that were not answered yet, oldest first
    bool starting = false;               // MPI_Init has not come to its end
};

// Reads the library's list of posted receives in the memory of a process that stands still. Its layout isn't
// part of PMIx's interface: sizes come from the library's own class records (PMIX_CLASS_INSTANCE), and what
// is found is believed only if the list closes and has as many items of the right class as it says. Errors:
// no such library in the process, or one with another layout.
[[nodiscard]] Result<PmixClient> look_at_pmix_client(const Holder& holder);

}  // namespace cairn::capture
