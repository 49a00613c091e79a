// Pass 3 of a restart: is everything here that the programs need? Nothing is changed by it; it is the last
// one of `cairn restart --check`.
#pragma once

#include <memory>

#include "common/error.h"
#include "resources/restore/objects.h"
#include "resources/saved/restore.h"
#include "restart/computation.h"
#include "restart/notes.h"
#include "restart/options.h"

namespace cairn::restart::pass {

struct Checked {
    ObjectSetOptions opening;
    std::unique_ptr<PutBack> put_back;  // files that go back with the programs; null: none
};

// Returns how objects are to be opened, as far as it is known before the coordinator was asked; where files
// are here as they were, `computation` has no copies of them any more. Errors (ExitCode::refused) name what
// is missing or has changed.
[[nodiscard]] Result<Checked> check(const Options& options, Computation& computation, Notes& notes);

}  // namespace cairn::restart::pass
