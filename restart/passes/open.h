// Pass 6 of a restart: files, pipes, sockets, terminals and System V objects are opened, once for all.
#pragma once

#include "common/error.h"
#include "common/fd.h"
#include "resources/restore/objects.h"
#include "resources/system_v/restore.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/notes.h"
#include "restart/options.h"
#include "restart/passes/check.h"
#include "restart/passes/spaces.h"
#include "restart/undone.h"

namespace cairn::restart::pass {

// For SystemV, as long as the set is where it is.
[[nodiscard]] SystemV::InSpace in_spaces_of(const ObjectSet& set);

struct Objects {
    std::unique_ptr<PutBack> put_back;  // files that lie ready to go back; null: none
    Undone<SystemV, &SystemV::undo> system_v;
    ObjectSet set;
    Fd image_place;  // the number that each process has its own image at
    int close_from;  // Inherited::close_from
    bool lazy;       // memory comes from a page server where that is exact
};

// `given` is what check() has said. The parts tell each other the ends of their connections by `meeting`.
[[nodiscard]] Result<Objects> open(const Options& options, const Computation& computation, Checked checked,
                                   const Spaces& spaces, Meeting& meeting, Notes& notes);

}  // namespace cairn::restart::pass
