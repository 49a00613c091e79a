// A process of the new forest becomes the program: its descriptors are put in place, and it executes the
// program's own executable, for the restart to rebuild it from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "resources/restore/objects.h"
#include "restart/computation.h"
#include "restart/forest/node.h"
#include "restart/regions.h"
#include "restart/stage.h"

namespace cairn::restart {

// What such a process has inherited of the tool.
struct Arrival {
    const Computation& computation;
    const std::vector<forest::Node>& nodes;
    const ObjectIndex& index;
    const ObjectSet& objects;
    int image_place;  // where it opens its image
    const Regions& regions;
    const ToKernel& to_kernel;
    bool terminal_foreground;  // OuterTerminal::foreground()
};

// In the process with this index (Computation::processes), once the stage lets it. What goes wrong is
// reported to the tool by the stage.
[[noreturn]] void become(std::size_t index, const Arrival& arrival, Stage& stage);

// All of this but the exec, in a process that stands in for this one: its descriptors are then what the
// program's own are right behind its exec.
[[nodiscard]] Result<> arrange_descriptors(std::size_t index, const Arrival& arrival);

// The path of an object, for messages and for files that the process opens by itself.
// See Inherited.
[[nodiscard]] std::string in_proc_of_the_dead(const ObjectIndex& index, std::int64_t object);

[[nodiscard]] std::string path_of(const ObjectIndex& index, std::int64_t object);

}  // namespace cairn::restart
