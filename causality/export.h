// Traces for other tools to show: Perfetto (ui.perfetto.dev, chrome://tracing) and ShiViz.
#pragma once

#include <string>

#include "causality/computation.h"

namespace cairn::causality {

// Chrome's trace events as JSON: a row for each process, events as slices that are as long as their calls,
// messages and collectives as flows between them. Writes to a new file, "-" is standard output.
[[nodiscard]] Result<> write_perfetto(const Computation& computation, const std::string& path);

// ShiViz's log: for each event a line with process and vector clock, and one that says what it is; read there
// by the expression (?<host>\S*) (?<clock>{.*})\n(?<event>.*), which is its default.
[[nodiscard]] Result<> write_shiviz(const Computation& computation, const std::string& path);

}  // namespace cairn::causality
