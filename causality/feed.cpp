#include "causality/feed.h"

#include <algorithm>

namespace cairn::causality {

Result<const Event*> Linearizer::Feed::head(std::uint64_t& count) {
    while (pending_.empty() || !pending_.front().known) {
        if (end_) {
            if (pending_.empty()) return nullptr;
            // What is still open at the end was never matched.
            for (Sequence* each : {&receives_, &collectives_}) {
                each->open.clear();
                number_in_order(*each);
            }
            continue;
        }
        CHECK_OK(pull());
    }
    count = pending_.front().count;
    return &pending_.front().event;
}

void Linearizer::Feed::pop() {
    pending_.pop_front();
    ++position_;
    entered = false;
    blocked = false;
}

void Linearizer::Feed::cut() {
    pending_.clear();
    end_ = cut_ = true;
    blocked = false;
}

Result<> Linearizer::Feed::pull() {
    Pending& pending = pending_.emplace_back();
    const auto got = TRY(owner_.source_.next(process_, pending.event));
    if (!got) {
        pending_.pop_back();
        end_ = true;
        return {};
    }
    const Event& event = pending.event;
    const EventId id{process_, static_cast<Position>(pulled_)};
    const char* what = nullptr;
    if (!plausible(event, owner_.source_.processes(), owner_.source_.places().size(), what))
        return owner_.refuse(id, event, what);
    if (event.has(Flag::joined) && pulled_ == 0)
        return owner_.refuse(id, event, "it belongs to the call of the event before it, and there is none");
    const std::vector<Process>* members = owner_.members_of(event.communicator);
    if (members == nullptr) return owner_.refuse(id, event, "its communicator is not defined");
    // A message may go to a member of the other group of an intercommunicator: not every peer is one of ours.
    const auto is_member = [&](Process who) {
        return std::binary_search(members->begin(), members->end(), who);
    };
    if (event.kind == Kind::collective &&
        (!is_member(process_) || (event.peer != none && !is_member(event.peer))))
        return owner_.refuse(id, event, "the process or the root is no member of the communicator");

    std::uint64_t order = pulled_++;
    if (event.request != 0) CHECK_OK(note_request(event, order));
    const bool counted = event.kind == Kind::receive && event.message == 0;
    if (!counted && event.kind != Kind::collective) {
        // It may have closed what others waited for.
        if (event.closes()) {
            number_in_order(receives_);
            number_in_order(collectives_);
        }
        return {};
    }
    Sequence& sequence = counted ? receives_ : collectives_;
    pending.known = false;
    sequence.closed.emplace(order, pulled_ - 1);
    number_in_order(sequence);
    return {};
}

Result<> Linearizer::Feed::note_request(const Event& event, std::uint64_t& order) {
    const EventId id{process_, static_cast<Position>(pulled_ - 1)};
    if (event.opens()) {
        const bool collective = event.has(Flag::for_collective);
        if (!requests_.emplace(event.request, Posted{order, collective}).second)
            return owner_.refuse(id, event, "the request it opens is open already");
        if (event.kind == Kind::post) (collective ? collectives_ : receives_).open.insert(order);
        return {};
    }
    const auto found = requests_.find(event.request);
    if (found == requests_.end()) return owner_.refuse(id, event, "the request it closes is not open");
    order = found->second.order;
    (found->second.collective ? collectives_ : receives_).open.erase(order);
    requests_.erase(found);
    return {};
}

void Linearizer::Feed::number_in_order(Sequence& sequence) {
    while (!sequence.closed.empty()) {
        const auto first = sequence.closed.begin();
        if (!sequence.open.empty() && *sequence.open.begin() < first->first) return;
        Pending& pending = pending_[first->second - position_];
        const Event& event = pending.event;
        pending.count = event.kind == Kind::collective
                            ? ++operations_[event.communicator]
                            : ++received_[owner_.channel(event, event.peer, process_)];
        pending.known = true;
        sequence.closed.erase(first);
    }
}

}  // namespace cairn::causality
