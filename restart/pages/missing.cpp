#include "restart/pages/missing.h"

namespace cairn::restart::pages {

void Missing::split(ProgramAddress address) {
    const auto found = find(address);
    if (!found || found->first == address) return;
    const auto [start, piece] = *found;
    pieces_[start].end = address;
    pieces_[address] = {piece.end, piece.run, piece.skip + (address - start)};
}

void Missing::erase(ProgramAddress start, ProgramAddress end) {
    split(start);
    split(end);
    pieces_.erase(pieces_.lower_bound(start), pieces_.lower_bound(end));
}

std::optional<std::pair<ProgramAddress, Piece>> Missing::find(ProgramAddress address) const {
    auto after = pieces_.upper_bound(address);
    if (after == pieces_.begin()) return std::nullopt;
    --after;
    if (after->second.end <= address) return std::nullopt;
    return *after;
}

std::optional<std::pair<ProgramAddress, Piece>> Missing::next(ProgramAddress address) const {
    if (auto here = find(address)) return here;
    const auto after = pieces_.lower_bound(address);
    if (after != pieces_.end()) return *after;
    if (pieces_.empty()) return std::nullopt;
    return *pieces_.begin();
}

std::uint64_t Missing::bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [start, piece] : pieces_) sum += piece.end - start;
    return sum;
}

}  // namespace cairn::restart::pages
