// JSON as text, whatever a string in it holds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/printable.h"

namespace cairn {

// Names of processes and files are bytes to the kernel: what isn't UTF-8 becomes U+FFFD (dump() alone would
// throw), and what a terminal would obey is escaped. Whoever needs the bytes back reads them from an image,
// whose MessagePack holds them as they were. indent < 0: one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = -1) {
    return printable_json(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace cairn
