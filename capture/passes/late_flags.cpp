#include "capture/passes/late_flags.h"

#include <algorithm>
#include <utility>

#include "common/each_in_parallel.h"
#include "common/helper_threads.h"

namespace cairn::capture {
namespace {

// The main thread's stack goes by its name: who has executed a program meanwhile has another one.
bool was_growing(const Draft& draft, const schema::Area& area) {
    if (area.name == "[stack]") return true;
    return draft.growing != nullptr && std::ranges::any_of(*draft.growing, [&](const ProgramRange& range) {
               return range.overlaps({area.start, area.end});
           });
}

}  // namespace

bool seems_borrowable(const Draft& draft, const schema::Area& area) {
    return can_be_borrowed(area) && !was_growing(draft, area);
}

LateFlags::LateFlags(std::vector<Draft*> drafts) : drafts_(std::move(drafts)), lines_(drafts_.size()) {
    read_ = [this] {
        (void)each_in_parallel(drafts_.size(), [this](std::size_t i) -> Result<> {
            lines_[i] = proc::maps(drafts_[i]->snapshot->pid(), true);
            return {};
        });
    };
    if (!drafts_.empty()) reader_ = helper_threads(1, read_);
}

// Memory that grows down and has come since the programs were looked at ahead may have been borrowed.
Result<> LateFlags::finish() {
    if (reader_.empty()) read_();  // there was no room for a thread
    reader_.join();
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
        auto& draft = *drafts_[i];
        CHECK_OK(add_draft_flags(draft, TRY(std::move(*lines_[i]))));
        for (const auto& area : draft.member->image.areas)
            if (area.grows_down && !was_growing(draft, area) && (area.borrowed || !area.pages.empty()))
                return fail(
                    "{}: memory at {:#x}, which grows down, was mapped while the checkpoint began; try again",
                    draft.label, area.start);
    }
    return {};
}

}  // namespace cairn::capture
