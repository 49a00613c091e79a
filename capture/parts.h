// Which processes a restart rebuilds together: what was started on one terminal of one host.
#pragma once

#include <vector>

#include "common/schema/manifest.h"
#include "resources/schema/object.h"

namespace cairn::capture {

// Processes belong together that are parent and child, that share a session, or that share an object which
// only one restart tool can make (a pipe, a pseudo-terminal, shared memory). Fills Manifest::parts and
// ManifestImage::part.
void make_parts(const std::vector<schema::Process>& processes, const schema::Objects& objects,
                schema::Manifest& manifest);

}  // namespace cairn::capture
