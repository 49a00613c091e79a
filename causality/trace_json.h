// The trace as JSON lines, to read and to write by hand (docs/trace-format.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "causality/trace.h"

namespace cairn::causality {

// One line of it.
struct TraceLine {
    enum class What { header, communicator, event, killed } what = What::header;
    Process processes = 0;      // header
    Communicator communicator;  // communicator
    Process process = 0;        // event, killed
    Event event;                // event; its place is in `place`
    Place place;
};

// Code damaged: what is wrong with this line.
[[nodiscard]] Result<TraceLine> parse_trace_line(std::string_view line);
[[nodiscard]] std::string trace_line(const TraceLine& line);

// `name` is for messages, which say the line.
[[nodiscard]] Result<std::unique_ptr<MemoryTrace>> parse_trace_lines(std::string_view text,
                                                                     std::string_view name);

}  // namespace cairn::causality
