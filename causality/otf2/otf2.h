// Traces in the Open Trace Format 2, as Score-P writes and Vampir reads them. Needs Debian's
// libotf2-trace-dev when cairn is built; without it each call is an error that says so.
#pragma once

#include <memory>
#include <string>

#include "causality/trace.h"

namespace cairn::causality {

// An anchor file, or a folder with one of the name that this cairn and Score-P give it.
[[nodiscard]] bool is_otf2(const std::string& path);

// Of each process its events in memory. What cairn wrote comes back as it was; of others' traces the MPI
// events are taken, each with the region around its call as its place.
[[nodiscard]] Result<std::unique_ptr<MemoryTrace>> read_otf2(const std::string& path);

// Makes this folder, which must not exist, with traces.otf2 in it.
[[nodiscard]] Result<> write_otf2(TraceSource& source, const std::string& folder);

}  // namespace cairn::causality
