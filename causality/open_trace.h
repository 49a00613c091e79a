// A trace in either form.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "causality/trace.h"

namespace cairn::causality {

// Binary files, or one file of JSON lines ("-": standard input), or an OTF2 archive (otf2/otf2.h).
[[nodiscard]] Result<std::unique_ptr<TraceSource>> open_trace(std::span<const std::string> paths);

// Writes what `source` holds to a new file: JSON lines or the binary form. Of each process one block is in
// memory.
[[nodiscard]] Result<> write_lines(TraceSource& source, const std::string& path);
[[nodiscard]] Result<> write_binary(TraceSource& source, const std::string& path);

}  // namespace cairn::causality
