// Where each process of a record with --checkpoints has its checkpoint of the recovery line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "causality/computation.h"
#include "causality/pattern.h"
#include "mpi/tool/options.h"

namespace cairn::mpi::tool {

// One process's part of a line.
struct Standpoint {
    enum class What : std::uint8_t { beginning, basic, forced, end };
    What what = What::beginning;
    std::uint32_t number = 0;    // of the checkpoint
    std::uint32_t given_up = 0;  // checkpoints behind it
    causality::Position position =
        0;                    // events of the program before it: those of a trace without checkpoints
    std::uint64_t event = 0;  // the call behind which it is, or `within` which
    bool within = false;
    std::string place;  // of that call
};

struct RecoveryLine {
    std::vector<Standpoint> ranks;
    std::uint64_t basic = 0, forced = 0, useless = 0;  // in the whole run
    std::uint64_t needless = 0;                        // that no recovery line can need any more
};

// `failed`: who has no state but its checkpoints. Others go on as they are where they can.
[[nodiscard]] RecoveryLine recovery_line_of(const causality::Computation& computation,
                                            std::span<const causality::Process> failed);
// "R,...", each below `ranks`; "" for all.
[[nodiscard]] Result<std::vector<causality::Process>> failed_ranks(const std::string& text,
                                                                   causality::Process ranks);
// The trace that record --checkpoints has left in this folder, or writes there: of a job that runs, as it is
// now. `load`: what is to be made of it. Code usage: there is none.
using LoadTrace = std::function<Result<causality::Computation>(std::unique_ptr<causality::TraceSource>)>;
[[nodiscard]] Result<causality::Computation> trace_with_checkpoints(const std::string& folder,
                                                                    const LoadTrace& load);
[[nodiscard]] Result<causality::Computation> trace_with_checkpoints(const std::string& folder);
[[nodiscard]] std::string text_of(const Standpoint& standpoint);

// `cairn mpi recovery-line`.
[[nodiscard]] Result<> recovery_line(const Options& options);

}  // namespace cairn::mpi::tool
