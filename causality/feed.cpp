#include "causality/feed.h"

#include <algorithm>

namespace cairn::causality {

Result<const Event*> Linearizer::Feed::head(std::uint64_t& count) {
    while (pending_.empty() || !pending_.front().known) {
        if (end_) {
            if (pending_.empty()) return nullptr;
            // What is still open at the end was never matched.
            receives_.open.clear();
            number_in_order();
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
    const bool posts = event.kind == Kind::post && event.has(Flag::for_collective);
    if ((event.kind == Kind::collective || posts) &&
        (!is_member(process_) || (event.peer != none && !is_member(event.peer))))
        return owner_.refuse(id, event, "the process or the root is no member of the communicator");

    std::uint64_t order = pulled_++;
    if (event.kind == Kind::collective ? event.request == 0 : posts)
        pending.count = ++operations_[event.communicator];
    if (event.request != 0) CHECK_OK(note_request(pending, order));
    if (event.kind == Kind::receive && event.message == 0) {
        pending.known = false;
        receives_.closed.emplace(order, pulled_ - 1);
        number_in_order();
    } else if (event.closes()) {
        number_in_order();  // it may have closed what others waited for
    }
    return {};
}

Result<> Linearizer::Feed::note_request(Pending& pending, std::uint64_t& order) {
    const Event& event = pending.event;
    const EventId id{process_, static_cast<Position>(pulled_ - 1)};
    if (event.opens()) {
        const bool collective = event.has(Flag::for_collective);
        const Posted posted{order, collective, event.communicator, pending.count};
        if (!requests_.emplace(event.request, posted).second)
            return owner_.refuse(id, event, "the request it opens is open already");
        if (event.kind == Kind::post && !collective) receives_.open.insert(order);
        return {};
    }
    const auto found = requests_.find(event.request);
    if (found == requests_.end()) return owner_.refuse(id, event, "the request it closes is not open");
    const Posted posted = found->second;
    requests_.erase(found);
    if (event.kind == Kind::collective) {
        if (!posted.collective || posted.communicator != event.communicator)
            return owner_.refuse(id, event, "what opened its request was no operation of this communicator");
        pending.count = posted.count;
    }
    order = posted.order;
    receives_.open.erase(order);
    return {};
}

void Linearizer::Feed::number_in_order() {
    while (!receives_.closed.empty()) {
        const auto first = receives_.closed.begin();
        if (!receives_.open.empty() && *receives_.open.begin() < first->first) return;
        Pending& pending = pending_[first->second - position_];
        pending.count = ++received_[owner_.channel(pending.event, pending.event.peer, process_)];
        pending.known = true;
        receives_.closed.erase(first);
    }
}

}  // namespace cairn::causality
