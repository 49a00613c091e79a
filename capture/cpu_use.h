// What the programs of a checkpoint can use of a CPU, beyond what this host's CPU has.
#pragma once

#include "capture/passes/passes.h"

namespace cairn::capture {

// Sets Manifest::cpu_level and linker_room. Notes who is kept to no level, if others are kept to one, and
// whose registers show that he has used more all the same.
void describe_cpu_use(const Members& members, schema::Manifest& manifest, Reporter& reporter);

}  // namespace cairn::capture
