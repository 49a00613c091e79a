// Events of the coordinator in words and tables. Nothing here asks or waits.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cairn::control {

// The `process` events of `list` as a tree's table, a line each; `memory` in bytes is taken from the field
// `memory`.
[[nodiscard]] std::string process_table(const std::vector<nlohmann::json>& processes);

// The `done` event of `status`.
[[nodiscard]] std::string status_text(const nlohmann::json& status);

// The `done` event of `checkpoint`.
[[nodiscard]] std::string checkpoint_text(const nlohmann::json& done);

// One line of progress, at most `width` columns: what a `phase`, `progress` or `queued` event says; "" for
// others.
[[nodiscard]] std::string progress_line(const nlohmann::json& event, std::size_t width);

// "12 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string duration(double seconds);

}  // namespace cairn::control
