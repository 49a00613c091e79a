// The files that go back with the program: copied ahead by the pass look_ahead, and brought up to the moment
// by the pass objects, while all stand still.
#pragma once

#include "capture/passes/passes.h"

namespace cairn::capture {

// The end of the pass look_ahead: what can be copied while the programs run. They are stopped for a moment,
// so that nobody is in the midst of a write whose beginning the files' times show already.
[[nodiscard]] Result<> copy_files_ahead(const Setting& setting, Ahead& ahead);

[[nodiscard]] Result<schema::SavedFiles> save_open_files(const Setting& setting, Ahead& ahead,
                                                         const Members& members, const FoundObjects& found);

}  // namespace cairn::capture
