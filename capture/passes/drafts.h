// Memory on its way into the image of one process: the passes fork and write have it in common.
#pragma once

#include <functional>
#include <vector>

#include "capture/memory/store.h"
#include "capture/passes/passes.h"

namespace cairn::capture {

// The folder of the generation before this one, this host's; "": there is none, or it isn't to be used.
[[nodiscard]] std::string generation_before(const Request& request);

[[nodiscard]] bool stored_in_image(const schema::Area& area);

// Fills in the areas of the member's image. `source`: its copy-on-write child, or the stopped process itself.
[[nodiscard]] Result<> make_draft_areas(Draft& draft, pid_t source);
// The same in two steps: what is to be known before pages are read, and what smaps tells of `source`, which
// takes as long as a fork.
[[nodiscard]] Result<> lay_out_areas(Draft& draft, pid_t source);
[[nodiscard]] Result<> add_draft_flags(Draft& draft, std::vector<proc::MapLine> flags);

// What mbind(2) was told of the memory of a process, or of its copy-on-write child: by where it begins.
[[nodiscard]] Result<std::map<ProgramAddress, MemoryPolicy>> policies_of(const schema::Process& image,
                                                                         pid_t source);

// Adds what is to be read of an area in `source`.
[[nodiscard]] Result<> add_jobs(Draft& draft, PageMap& source, schema::Area& area,
                                std::vector<StoreJob>& jobs);

// Memory that is read from the processes themselves must look like an image for this time: calls `work`.
[[nodiscard]] Result<> look_like_images(const Participants& participants, const std::vector<Draft*>& drafts,
                                        const std::function<Result<>()>& work);

// Stores jobs of this draft alone, while the processes stand still.
[[nodiscard]] Result<> store_draft(Draft& draft, std::vector<StoreJob> jobs, Reporter& reporter);

}  // namespace cairn::capture
