// What smaps tells of the copy-on-write children, read beside their pages: it walks all page tables, which
// takes as long as a fork, and most of it is only written down.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "capture/passes/drafts.h"
#include "common/helper_threads.h"

namespace cairn::capture {

// Whether pages of this area may be borrowed (borrow.h), as far as is known before its flags are. Of those by
// which it can't be, all but one leave nothing in the copy-on-write child that could be: what is marked so
// isn't copied, or is empty there.
[[nodiscard]] bool seems_borrowable(const Draft& draft, const schema::Area& area);

class LateFlags {
  public:
    // Begins to read. Borrows the drafts, whose areas are laid out meanwhile; each has been seen ahead
    // (Draft::growing).
    explicit LateFlags(std::vector<Draft*> drafts);

    // The areas have their flags then. Refused: what add_draft_flags() refuses, and an area that isn't what
    // it seemed to be.
    [[nodiscard]] Result<> finish();

  private:
    std::vector<Draft*> drafts_;
    std::vector<std::optional<Result<std::vector<proc::MapLine>>>> lines_;  // of each
    std::function<void()> read_;
    HelperThreads reader_;
};

}  // namespace cairn::capture
