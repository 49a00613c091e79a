// Which notes the session's checkpoints have told already, so that people are told those that are new.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

namespace cairn::coordinator {

class Told {
  public:
    // Who hears of a checkpoint: the client that has asked for it (and the console and the log with him), or
    // these two alone. What has only been written into a log is new to the first client who asks.
    enum class Audience { log, client };

    // Those of `notes` that this audience hears for the first time.
    [[nodiscard]] std::vector<std::string> news(const std::vector<std::string>& notes, Audience audience);

  private:
    std::array<std::set<std::string>, 2> told_;
};

}  // namespace cairn::coordinator
