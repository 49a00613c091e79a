// Where libdw isn't there to build with.
#include "cli/inspect_stacks.h"

namespace cairn::inspect {

Result<std::vector<Stack>> stacks_of(const Checkpoint&, const LoadedProcess&) {
    return fail_code(
        ExitCode::refused,
        "this cairn was built without libdw, by which stacks are unwound; `cairn inspect --core` "
        "and gdb show them");
}

}  // namespace cairn::inspect
