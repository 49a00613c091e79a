// The kernel's shared object that every process has mapped, vdso(7): its bytes, and the functions in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn {

struct VdsoFunction {
    std::string name;                    // "__vdso_clock_gettime"
    std::uint64_t offset = 0, size = 0;  // bytes, from the start of the vdso
};

// Those that `image`, a vdso as it lies in memory, exports under names that begin with "__vdso_"; each lies
// within it. The aliases without that prefix are other names of the same addresses. Errors: it is no such
// object, or leads out of its own bytes; nothing in it is trusted.
[[nodiscard]] Result<std::vector<VdsoFunction>> vdso_functions(std::span<const std::byte> image);

// The running kernel's, as this process has it mapped. Every process of 64 bits has the same bytes, each at
// an address of its own. None if the kernel was booted with vdso=0.
[[nodiscard]] std::span<const std::byte> running_vdso();

}  // namespace cairn
