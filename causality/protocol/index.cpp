// The protocol of Briatico, Ciuffoletti and Simoncini: a forced checkpoint where a higher index comes in.
#include "causality/protocol/protocols.h"

namespace cairn::causality {

void IndexProtocol::take_checkpoint() {
    clock_ = asked_ ? arriving_ : clock_ + 1;
    asked_ = false;
    last_ = {clock_, first_sent_};
    first_sent_ = none;
}

std::size_t IndexProtocol::send(Process, std::span<std::uint8_t> into) {
    if (first_sent_ == none) first_sent_ = clock_;
    ByteWriter out(into);
    out.varint(clock_);
    return out.size();
}

Result<bool> IndexProtocol::receive(Process, std::span<const std::uint8_t> piggyback) {
    ByteTaker in(piggyback);
    const std::uint32_t clock = in.varint();
    if (!in.done() || clock == 0) return damaged();
    arriving_ = clock;
    asked_ = clock > clock_ && (!only_if_sent_ || first_sent_ != none);
    return asked_;
}

void IndexProtocol::deliver() {
    asked_ = false;
    clock_ = std::max(clock_, arriving_);
}

void IndexProtocol::store(std::span<std::uint8_t> into) const {
    ByteWriter out(into);
    const std::uint32_t state[] = {clock_, first_sent_, last_.date, last_.first_sent};
    out.raw(state, 4);
}

Result<> IndexProtocol::load(std::span<const std::uint8_t> from) {
    ByteTaker in(from);
    std::uint32_t state[4] = {};
    in.raw(state, 4);
    if (!in.done() || state[0] == 0) return damaged();
    clock_ = state[0];
    first_sent_ = state[1];
    last_ = {state[2], state[3]};
    asked_ = false;
    return {};
}

}  // namespace cairn::causality
