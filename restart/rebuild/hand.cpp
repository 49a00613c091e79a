#include "restart/rebuild/hand.h"

#include "common/vdso.h"

namespace cairn::restart {

// Every process has the same vdso: it is searched once, in the tool's own memory.
Result<ProgramAddress> call_instruction(const Rebuilding& rebuilding) {
    static const auto offset = ptrace::find_syscall(running_vdso());
    if (!offset) return fail("no system call instruction in the vdso of {}", rebuilding.pid);
    return rebuilding.placement.vdso + *offset;
}

}  // namespace cairn::restart
