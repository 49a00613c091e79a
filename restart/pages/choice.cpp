#include "restart/pages/choice.h"

#include "common/lazy_memory.h"

namespace cairn::restart::pages {

Result<bool> choose_lazy(Memory wish) {
    // Only who asks for it: see "Not the default" in docs/decisions/0002-restart-memory.md.
    if (wish != Memory::lazy) return false;
    if (auto possible = can_be_lazy(); !possible)
        return fail_code(ExitCode::refused, "--lazy: {}; use --eager", possible.error().what);
    return true;
}

}  // namespace cairn::restart::pages
