// Programs that come from another kernel keep its vdso, and its functions lead to the running kernel's
// (docs/decisions/0017-vdso.md).
#pragma once

#include "common/error.h"
#include "common/schema/process.h"
#include "restart/computation.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Of each process whose vdso isn't the running kernel's, byte by byte, the vdso becomes memory like any
// other, with the image's bytes, and the kernel's data beside it become pages of zeros. CAIRN_OLD_VDSO=1 does
// so with every process, for tests. Errors: ExitCode::refused, by name, for a thread that is in the middle of
// such a function, or will be when a signal's handler returns: only the kernel of the checkpoint can finish
// that.
[[nodiscard]] Result<> keep_old_vdsos(Computation& computation);

// The old vdso, if the process has one. Valid as long as the process.
[[nodiscard]] const schema::Area* old_vdso(const schema::Process& process);

// Writes the way from the old functions to the running kernel's into a process that is rebuilt and traced, if
// it has an old vdso. Errors: it has a function for which this kernel has nothing, or none that can be
// changed.
[[nodiscard]] Result<> lead_old_vdso(const Rebuilding& rebuilding);

// What lead_old_vdso() writes, in the order of the offsets.
struct VdsoPatch {
    std::uint64_t offset = 0;  // from the start of the old vdso
    std::vector<std::byte> code;
};

// `running_at`: where the process has the running kernel's vdso. Errors: as lead_old_vdso().
[[nodiscard]] Result<std::vector<VdsoPatch>> lead_vdso(std::span<const std::byte> old,
                                                       std::span<const std::byte> running,
                                                       ProgramAddress running_at);

}  // namespace cairn::restart
