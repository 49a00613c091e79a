// What an editor shows of a rank that stands: its frames, variables, expressions. A gdb looks at a copy of
// the rank and answers as long as nobody moves; or at the rank itself, which can't go on meanwhile, and which
// gdb then neither writes to nor calls functions of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "mpi/debug/world.h"

namespace cairn::mpi::debug::dap {

// Owns gdb, which goes with it, and the copy; a rank that is none stands alone again then.
class Inspector {
  public:
    // Takes some tenths of a second, for gdb to read the symbols.
    [[nodiscard]] static Result<Inspector> start(World::Looked rank);
    Inspector(Inspector&& other) noexcept;
    Inspector& operator=(Inspector&&) = delete;
    ~Inspector();

    // {"do": "frames"}: [{"name", "path", "line"}...], innermost of the program first.
    // {"do": "locals" or "globals", "frame": N}, {"do": "children", "of": REFERENCE, "start", "count"}:
    // [{"name", "value", "type", "expression", "reference", "elements"}...]; reference 0: it has no parts.
    // {"do": "evaluate", "frame": N, "expression"}: one of these.
    // Code refused: gdb can't, and why. Timed_out: it said nothing for 60 s.
    [[nodiscard]] Result<nlohmann::json> ask(const nlohmann::json& request);

  private:
    explicit Inspector(World::Looked rank) : rank_(std::move(rank)) {}
    [[nodiscard]] Result<> run();
    [[nodiscard]] Error ended() const;

    World::Looked rank_;
    pid_t gdb_ = -1;
    Fd socket_;
    Fd said_;  // a file with what gdb itself says
    std::string text_;
};

}  // namespace cairn::mpi::debug::dap
