#include "resources/capture/duplicates.h"

#include "resources/capture/description.h"
#include "resources/schema/descriptor_room.h"

namespace cairn::capture {
namespace {

// Whatever has been asked for among the last so many is not let go of: whoever looks at one, compares two or
// has both ends of a connection in hand, has asked for them just now.
constexpr std::uint64_t in_use = 32;

}  // namespace

Duplicates::Duplicates() : most_(static_cast<std::size_t>(raise_descriptor_limit() / 4 * 3)) {}

void Duplicates::add(const Description& description) {
    ++held_;
    description.used = ++uses_;
    // What is on its way through a socket can't be taken again.
    if (description.number.known()) dispensable_.push_back(&description);
    make_room();
}

void Duplicates::use(const Description& description) {
    description.used = ++uses_;
    if (!description.duplicate) take_again(description);
}

void Duplicates::take_again(const Description& description) {
    static const Borrow nothing;
    Holder holder = description.holder;
    holder.pidfd = -1;  // closed by now
    Taking taking(borrow_ == nullptr ? nothing : *borrow_, holder, std::span(&description.number, 1));
    if (auto taken = taking.next()) description.duplicate = std::move(*taken);
    if (description.duplicate) add(description);
}

void Duplicates::make_room() {
    for (auto left = dispensable_.size(); held_ > most_ && left > 0; --left) {
        const Description* const oldest = dispensable_.front();
        dispensable_.pop_front();
        if (oldest->used + in_use > uses_) {
            dispensable_.push_back(oldest);
            continue;
        }
        oldest->duplicate.reset();
        --held_;
    }
}

void Duplicates::forget_all() {
    held_ = 0;
    dispensable_.clear();
}

}  // namespace cairn::capture
