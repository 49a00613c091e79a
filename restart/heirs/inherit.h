// What of its parent's memory an heir keeps, and what of it has to be changed.
#pragma once

#include <cstdint>
#include <vector>

#include "common/schema/process.h"

namespace cairn::restart {

struct InheritedArea {
    const schema::Area* area = nullptr;  // the heir's own
    // Pages that the parent has there and the heir has not: they are given up.
    std::vector<ProgramRange> drops;
};

// Areas that are the same in both but for their pages, or a part of the parent's, in order of their
// addresses. What the heir has borrowed there is what the parent has: it need not be read.
[[nodiscard]] std::vector<InheritedArea> inherited_areas(const schema::Process& heir,
                                                         const schema::Process& parent);

}  // namespace cairn::restart
