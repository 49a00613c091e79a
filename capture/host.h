// What the manifest says of the machine, so that a restart elsewhere can tell what is missing.
#pragma once

#include "common/schema/manifest.h"

namespace cairn::capture {

void describe_host(schema::Manifest& manifest);

}  // namespace cairn::capture
