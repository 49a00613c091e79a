// Which addresses of a process have not got their pages yet, and where in the image these are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/program_address.h"

namespace cairn::restart::pages {

struct Piece {
    ProgramAddress end;
    std::uint32_t run = 0;   // of the process's list of runs
    std::uint64_t skip = 0;  // the piece begins so many bytes into the run
    bool operator==(const Piece&) const = default;
};

// All addresses and lengths are multiples of a page.
class Missing {
  public:
    using Pieces = std::map<ProgramAddress, Piece>;

    void add(ProgramAddress start, Piece piece) { pieces_[start] = piece; }
    void erase(ProgramAddress start, ProgramAddress end);
    // A piece that reaches over this address becomes two.
    void split(ProgramAddress address);

    // The piece that has this address.
    [[nodiscard]] std::optional<std::pair<ProgramAddress, Piece>> find(ProgramAddress address) const;
    // The first that ends behind this address, else the first of all.
    [[nodiscard]] std::optional<std::pair<ProgramAddress, Piece>> next(ProgramAddress address) const;
    [[nodiscard]] bool empty() const { return pieces_.empty(); }
    [[nodiscard]] std::uint64_t bytes() const;
    [[nodiscard]] const Pieces& pieces() const { return pieces_; }
    bool operator==(const Missing&) const = default;

  private:
    Pieces pieces_;
};

}  // namespace cairn::restart::pages
