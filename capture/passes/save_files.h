// The files that go back with the program are saved while all stand still: a piece of the pass objects.
#pragma once

#include "capture/passes/passes.h"

namespace cairn::capture {

// CAIRN_FILES=save: the coordinator hands its CAIRN_* variables on.
[[nodiscard]] bool saves_files();

[[nodiscard]] Result<schema::SavedFiles> save_open_files(const Setting& setting, const Ahead& ahead,
                                                         const Members& members, const FoundObjects& found);

}  // namespace cairn::capture
