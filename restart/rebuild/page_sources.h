// Where the pages of a process that is rebuilt come from: its own image, and those of others in the folder
// that it has pages of. What the restorer can read by itself it does; compressed images it leaves to the
// tool.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/image/page_reader.h"
#include "restart/computation.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Images of one folder that aren't of its processes, or are lent from: what is known of each is found out
// once.
class OtherImages {
  public:
    explicit OtherImages(const Computation& computation) : computation_(computation) {}
    // The chunks of this one; null: its pages are plain. Errors: as ImageReader::open.
    [[nodiscard]] Result<std::shared_ptr<const ChunkTable>> chunks_of(const std::string& name);

  private:
    const Computation& computation_;
    std::map<std::string, std::shared_ptr<const ChunkTable>> known_;
};

// Says in `rebuilding` which images the plan's runs are of, and leaves what the restorer can't read to the
// tool. `own`: the process's image.
[[nodiscard]] Result<> find_page_sources(const ImageReader& own, OtherImages& others, Rebuilding& rebuilding);

// Opens one of them, numbered as restorer::Unit::image.
struct OpenPages {
    Fd file;
    PageData data;
};
[[nodiscard]] Result<OpenPages> open_pages(const Rebuilding& rebuilding, std::uint32_t image);

// Writes MemoryPlan::written_runs into the process, whose memory is mapped and who is traced by the caller.
// Errors: ExitCode::damaged naming the image.
[[nodiscard]] Result<> write_pages(const Rebuilding& rebuilding);

}  // namespace cairn::restart
