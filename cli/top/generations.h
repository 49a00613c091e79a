// The checkpoints of a computation that are on the disk. A manifest is read once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/top/sample.h"

namespace cairn::top {

class Generations {
  public:
    // Those in FOLDER/CID, the newest first; what can't be read is left out.
    [[nodiscard]] std::vector<GenerationRow> look(const std::string& folder, const std::string& cid);

  private:
    std::map<std::string, GenerationRow> known_;  // by folder
};

}  // namespace cairn::top
