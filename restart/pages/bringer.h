// Brings what is missing to where it belongs: out of the image, its checksum compared, by UFFDIO_COPY. A
// bringer changes nothing that somebody else looks at: several can be at work at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/page_reader.h"
#include "common/program_address.h"
#include "restart/pages/missing.h"
#include "restart/pages/shared.h"

namespace cairn::restart::pages {

struct Order {
    int fd = -1;                      // the userfaultfd of whose memory it is
    const Served* served = nullptr;   // whose image has it
    ProgramAddress start{}, first{};  // of the piece, and of the page of it that comes before the others
    Piece piece;
    bool alone = false;  // the page only, and not the piece
};

enum class Done {
    yes,
    later,  // memory is being changed there, or the machine has none to give: not all of it is in place
    gone,   // the process has no memory any more
};

struct Brought {
    Done done = Done::yes;
    std::vector<ProgramRange> placed;  // what isn't missing any more
    std::string problem;               // not "": the pages can't be had, and the programs must not go on
};

class Bringer {
  public:
    Bringer();
    [[nodiscard]] Brought bring(const Order& order);

  private:
    [[nodiscard]] Result<> load(const Served& process, std::uint32_t index);

    std::vector<std::uint8_t> buffer_;
    std::optional<PageReader> reader_;
    const PageData* reader_of_ = nullptr;
    const Served* loaded_ = nullptr;
    std::uint32_t loaded_run_ = 0;
};

}  // namespace cairn::restart::pages
