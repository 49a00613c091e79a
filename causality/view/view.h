// The space-time diagram: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "causality/computation.h"

namespace cairn::causality {

struct ViewOptions {
    std::string title;
    std::vector<Process> failed;  // draws their recovery line
    std::size_t places = 10;      // how many places are drawn
    std::vector<Position> base;   // of each process: the number of its first event; empty: 0
    bool by_time = false;         // across: the processes' clocks; otherwise the order of causes
    bool by_call = false;         // an event's number is that of its call, from 1
    std::string more;             // HTML at the end of the page: its scripts see those of the page
};

// About 30 bytes for each event, and the page itself.
[[nodiscard]] std::string view_html(const Computation& computation, const ViewOptions& options);

}  // namespace cairn::causality
