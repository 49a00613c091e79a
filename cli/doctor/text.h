// What the doctor says: for people, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/doctor/probe.h"

namespace cairn::doctor {

[[nodiscard]] bool works(const std::vector<Line>& lines);

// "cairn works here as an ordinary user; 2 things are slower, 1 is missing"
[[nodiscard]] std::string verdict(const std::vector<Line>& lines, const Setting& setting);

// By groups, the verdict last.
[[nodiscard]] std::string report(const std::vector<Line>& lines, const Setting& setting, bool coloured);

[[nodiscard]] nlohmann::json as_json(const std::vector<Line>& lines, const Setting& setting);

}  // namespace cairn::doctor
