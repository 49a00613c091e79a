// What an editor shows of a rank that stands: its frames, variables, expressions. A gdb looks at a copy of
// the rank and answers as long as nobody moves.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "mpi/debug/process.h"

namespace cairn::mpi::debug::dap {

// Owns the copy and its gdb, which go with it.
class Inspector {
  public:
    // Takes some tenths of a second, for gdb to read the symbols.
    [[nodiscard]] static Result<Inspector> start(RankProcess copy);
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
    explicit Inspector(RankProcess copy) : copy_(std::move(copy)) {}
    [[nodiscard]] Result<> run();
    [[nodiscard]] Error ended() const;

    RankProcess copy_;
    pid_t gdb_ = -1;
    Fd socket_;
    Fd said_;  // a file with what gdb itself says
    std::string text_;
};

}  // namespace cairn::mpi::debug::dap
