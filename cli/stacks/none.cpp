// Where libdw isn't there to build with.
#include "cli/stacks/python.h"
#include "cli/stacks/unwind.h"

namespace cairn::stacks {

Result<std::vector<Unwound>> unwind(const Subject&) {
    return fail_code(ExitCode::refused,
                     "this cairn was built without libdw, by which stacks are unwound; gdb shows them");
}

bool is_python(const std::string&) {
    return false;
}

std::optional<python::Interpreter> find_python(std::span<const Module>) {
    return std::nullopt;
}

}  // namespace cairn::stacks
