// What OTF2's events have no room for is in attributes, by which cairn knows its own traces.
#pragma once

#include <cstdint>
#include <string>

#include "causality/event.h"

namespace cairn::causality {

enum class Otf2Attribute : std::uint32_t {
    kind,
    shape,
    flags,
    peer,
    communicator,
    tag,
    request,
    place,
    message,
    bytes,
    type,
    time,
    took,
    count_
};
inline constexpr const char* otf2_attribute_names[] = {
    "cairn.kind", "cairn.shape",   "cairn.flags", "cairn.peer",    "cairn.communicator",
    "cairn.tag",  "cairn.request", "cairn.place", "cairn.message", "cairn.bytes",
    "cairn.type", "cairn.time",    "cairn.took"};
// Everything of a trace that is no event, as lines (trace_json.h).
inline constexpr const char* otf2_lines_property = "CAIRN::LINES";

// What went wrong last in the library, instead of its own line on stderr.
[[nodiscard]] const std::string& otf2_complaint();
void hear_otf2_complaints();

}  // namespace cairn::causality
