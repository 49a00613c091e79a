// Pages that processes have in common since a fork are stored once: in the image of the parent, which the
// children's images name (schema::Borrowed). A page counts as common if it has the same contents at the same
// address: only root is told by the page map whether it is the same page, and one that is merely equal can as
// well be shared from the restart on (docs/decisions/0027-shared-pages.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/memory/areas.h"
#include "capture/memory/still_pages.h"
#include "common/ids.h"
#include "common/schema/process.h"

namespace cairn::capture {

// Who has the same mapping as the process that is being stored, and is stored already.
struct Lender {
    ProgramId id;
    pid_t source = 0;                    // whose memory is compared: its copy-on-write child
    const schema::Area* area = nullptr;  // its pages are known, and in order
    const StillPages* still = nullptr;   // has what is stored of it; null: `source` has
};

// Whether pages of this area may be the lender's: private memory that a fork hands on. Not the stack, which a
// restart looks at in the process's own image.
[[nodiscard]] bool can_be_borrowed(const schema::Area& area);

// The lender's area that was the same mapping as `area` before the fork, if it has all of `part` of that;
// null: there is none. Either may have grown or shrunk since. The heap of a child that asks for more is even
// two areas: the kernel adds nothing to one that goes on from a fork (is_mergeable_anon_vma() in mm/vma.c).
[[nodiscard]] const schema::Area* lending_area(const std::vector<schema::Area>& lenders,
                                               const schema::Area& area, ProgramRange part);

// Where the lender's page at an address is stored: in its own image, or in one that it has borrowed from.
struct Stored {
    ProgramId from;
    std::optional<std::string> file;  // schema::Borrowed::file
    schema::PageRun run;              // that contains it
};
[[nodiscard]] std::optional<Stored> stored_at(const Lender& lender, ProgramAddress address);

// Pages of the range that are the lender's and those that are not, each as long as can be: a lender's piece
// lies in one image, side by side there, and is what one run of the lender's says, if it is all of that.
// `mine` and `theirs`: the contents of the range in either process.
struct Piece {
    ProgramRange range;
    std::optional<Stored> stored;  // none: it is the process's own
    bool whole = false;            // it is all of stored->run
};
[[nodiscard]] std::vector<Piece> compare_pages(const Lender& lender, ProgramRange range,
                                               std::span<const std::uint8_t> mine,
                                               std::span<const std::uint8_t> theirs);

// Whether the lender's memory is still what its image has of it: `theirs`, read from `range`, has all of the
// run. A copy that only waits changes as well, where the kernel writes into it: the processor's number in
// threads' areas for restartable sequences (rseq(2)), the agent's own stack.
[[nodiscard]] bool still_as_stored(const schema::PageRun& run, ProgramRange range,
                                   std::span<const std::uint8_t> theirs);

// Adds stored.run to what the area has borrowed of that image.
void add_borrowed(schema::Area& area, const Stored& stored);

// All of the lender's runs in the range, if the page maps of both processes say that every page in it is the
// very same one. Nothing if they aren't, or if nobody may know (CAP_SYS_ADMIN), or a run goes beyond the
// range.
[[nodiscard]] std::optional<std::vector<Stored>> same_pages(const Lender& lender, PageMap& lenders,
                                                            PageMap& borrowers, ProgramRange range);

}  // namespace cairn::capture
