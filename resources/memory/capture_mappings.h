// Contents of memory that nobody gives a descriptor of: an ordinary user isn't given one of what is mapped
// only
// (/proc/PID/map_files is for CAP_CHECKPOINT_RESTORE).
#pragma once

#include "resources/memory/capture.h"
#include "resources/memory/capture_read.h"
#include "resources/schema/object.h"

namespace cairn::capture {

// All that is mapped of it by anybody. Where nothing else tells the memory's size, saved.size is where the
// last mapping of it ends.
[[nodiscard]] Result<> read_mappings(Table& table, schema::Memory& saved, const Memory& memory,
                                     const Reading& reading);

}  // namespace cairn::capture
