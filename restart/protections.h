// How programs protect themselves, and what is in force where they are restarted.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/speculation.h"
#include "restart/computation.h"

namespace cairn::restart {

// What a restart's processes inherit from the tool.
struct OwnProtections {
    std::uint32_t deny_write_execute = 0;  // PR_GET_MDWE
    // False: memory can't become executable that hasn't been, by PR_SET_MDWE or by a seccomp filter
    // (systemd's MemoryDenyWriteExecute=).
    bool may_gain_execution = true;
    Speculation speculation;
};
[[nodiscard]] const OwnProtections& own_protections();

// Whether this kernel has mseal(2) and PR_SET_MDWE.
[[nodiscard]] bool knows_mseal();
[[nodiscard]] bool knows_mdwe();

// PR_SPEC_* of prctl(2) for a thread that inherits `own`; 0: it has what is wanted, or can't get it.
[[nodiscard]] std::int32_t speculation_to_set(std::optional<std::int32_t> own,
                                              std::optional<std::int32_t> wanted);

// Those whose executable memory isn't a file's come back only where memory may become executable. Refused by
// name.
[[nodiscard]] Result<> refuse_gain_of_execution(const Computation& computation);

// What this kernel is too old for.
void note_protections(const Computation& computation, std::vector<std::string>& notes);

}  // namespace cairn::restart
