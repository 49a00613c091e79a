#include "causality/linearize.h"

#include <algorithm>

#include "causality/feed.h"

namespace cairn::causality {
namespace {

constexpr std::uint32_t numbered = 0x80000000;

}  // namespace

Linearizer::Linearizer(TraceSource& source) : source_(source) {
    for (Process process = 0; process < source.processes(); ++process) {
        feeds_.push_back(std::make_unique<Feed>(*this, process));
        everybody_.push_back(process);
        ready_.push_back(process);
    }
    for (const Communicator& each : source.communicators()) communicators_.emplace(each.id, &each);
}

Linearizer::~Linearizer() = default;

Result<bool> Linearizer::next(Step& step) {
    while (out_.empty()) {
        if (ready_.empty()) {
            CHECK_OK(unblock());
            if (out_.empty() && ready_.empty()) return false;
            continue;
        }
        const Process process = ready_.front();
        ready_.pop_front();
        CHECK_OK(advance(process));
    }
    step = out_.front();
    out_.pop_front();
    return true;
}

// Takes one process as far as it gets, but not so far that what comes out has to be kept for long.
Result<> Linearizer::advance(Process process) {
    constexpr int stretch = 64;
    feeds_[process]->blocked = false;
    for (int i = 0; i < stretch; ++i) {
        Feed& feed = *feeds_[process];
        std::uint64_t count = 0;
        const auto event = TRY(feed.head(count));
        if (event == nullptr) return {};
        const auto passed = TRY(try_event(process, *event, count));
        if (!passed) {
            feed.blocked = true;
            return {};
        }
    }
    ready_.push_back(process);
    return {};
}

Result<bool> Linearizer::try_event(Process process, const Event& event, std::uint64_t count) {
    const EventId id = feeds_[process]->id();
    if (event.kind == Kind::collective) return try_collective(id, event, count);
    if (event.kind == Kind::receive) return try_receive(id, event, count);
    if (event.kind == Kind::send) CHECK_OK(emit_send(id, event));
    if (event.kind == Kind::post && event.has(Flag::for_collective))
        enter_by_post(id, event, count);
    else
        emit(id, event, {}, none, true);
    return true;
}

Linearizer::Groups::iterator Linearizer::operation_of(const Event& event, std::uint64_t count) {
    const auto [group, is_new] = groups_.try_emplace({event.communicator, count});
    if (is_new) {
        group->second.number = group_count_++;
        group->second.members = members_of(event.communicator)->size();
    }
    return group;
}

// The event goes on, and the process has its part in the operation from here on.
void Linearizer::enter_by_post(EventId id, const Event& event, std::uint64_t count) {
    const auto group = operation_of(event, count);
    Group& operation = group->second;
    emit(id, event, {}, none, true);
    operation.arrived.push_back(id.process);
    operation.posted.resize(feeds_.size());
    operation.posted[id.process] = true;
    const bool everybody = operation.arrived.size() == operation.members;
    const bool is_root = operation.first.shape == Shape::from_root && operation.first.peer == id.process;
    if (!everybody && !is_root) return;
    const std::vector<Process> waiting = std::move(operation.waiting);
    operation.waiting.clear();
    // Those without a post in one piece, and before the others.
    for (const Process each : waiting)
        if (operation.first.shape == Shape::all && !operation.posted[each]) pass(group, each, true);
    for (const Process each : waiting)
        if (operation.first.shape != Shape::all || operation.posted[each]) ready_.push_back(each);
}

// Also takes the event from its feed.
void Linearizer::emit(EventId id, const Event& event, EventId partner, std::uint32_t group, bool whole) {
    out_.push_back({id, event, partner, group, whole});
    feeds_[id.process]->pop();
}

Result<> Linearizer::emit_send(EventId id, const Event& event) {
    Key key{numbered | id.process, event.message};
    if (event.message == 0) {
        key.channel = channel(event, id.process, event.peer);
        key.number = ++sent_[key.channel];
    }
    const auto [slot, is_new] = messages_.try_emplace(key);
    Slot& message = slot->second;
    if (!is_new && message.send.process != none)
        return refuse(id, event,
                      "it gives a message the number of another: " +
                          event_text(message.send, Event{.kind = Kind::send, .peer = message.destination}));
    message.send = id;
    message.destination = event.peer;
    message.communicator = event.communicator;
    message.tag = event.tag;
    ++in_transit_;
    if (message.waiter != none) ready_.push_back(std::exchange(message.waiter, none));
    return {};
}

Result<bool> Linearizer::try_receive(EventId id, const Event& event, std::uint64_t count) {
    Key key{numbered | event.peer, event.message};
    if (event.message == 0) key = {channel(event, event.peer, id.process), count};
    const auto [slot, is_new] = messages_.try_emplace(key);
    Slot& message = slot->second;
    if (message.send.process == none) {
        if (message.waiter != none && message.waiter != id.process)
            return refuse(id, event, fmt::format("process {} receives the same message", message.waiter));
        message.waiter = id.process;
        return false;
    }
    if (message.destination != id.process || message.communicator != event.communicator ||
        message.tag != event.tag)
        return refuse(id, event,
                      "the message is another: it was sent by " +
                          event_text(message.send, Event{.kind = Kind::send,
                                                         .peer = message.destination,
                                                         .communicator = message.communicator,
                                                         .tag = message.tag}));
    const EventId send = message.send;
    messages_.erase(slot);
    --in_transit_;
    emit(id, event, send, none, true);
    return true;
}

Result<bool> Linearizer::try_collective(EventId id, const Event& event, std::uint64_t count) {
    const auto group = operation_of(event, count);
    Group& operation = group->second;
    if (operation.first.kind != Kind::collective) {
        operation.first = event;
        operation.first_id = id;
    }
    const bool posted = event.request != 0;
    Feed& feed = *feeds_[id.process];
    if (!feed.entered) {
        if (operation.first.shape != event.shape || operation.first.peer != event.peer)
            return refuse(id, event,
                          fmt::format("it is operation {} of its communicator, as {} is", count,
                                      event_text(operation.first_id, operation.first)));
        feed.entered = true;
        if (!posted) operation.arrived.push_back(id.process);
    }
    const bool everybody = operation.arrived.size() == operation.members;
    const bool is_root = event.peer == id.process;
    bool may = false;
    switch (event.shape) {
        case Shape::all:
            may = everybody;
            break;
        case Shape::from_root:
            may = is_root || operation.root_passed ||
                  (!operation.posted.empty() && operation.posted[event.peer]);
            if (is_root) operation.root_passed = true;
            break;
        case Shape::to_root:
            may = !is_root || everybody;
            break;
        case Shape::alone:
            break;
    }
    if (!may) {
        if (std::find(operation.waiting.begin(), operation.waiting.end(), id.process) ==
            operation.waiting.end())
            operation.waiting.push_back(id.process);
        return false;
    }
    const bool wake = event.shape == Shape::from_root ? is_root : everybody;
    std::vector<Process> waiting;
    if (wake) waiting.swap(operation.waiting);
    if (event.shape == Shape::all && !posted) {
        const auto by_post = [&](Process each) {
            return !operation.posted.empty() && operation.posted[each];
        };
        std::vector<Process> later;
        for (const Process each : waiting)
            if (by_post(each)) later.push_back(each);
        std::erase_if(waiting, by_post);
        waiting.push_back(id.process);
        for (const Process each : waiting) pass(group, each, true);
        waiting = std::move(later);
    } else {
        pass(group, id.process, true);
    }
    for (const Process each : waiting)
        if (each != id.process) ready_.push_back(each);
    return true;
}

// `process` leaves the operation, which is gone when all its members have left.
void Linearizer::pass(Groups::iterator group, Process process, bool whole) {
    std::uint64_t count = 0;
    Feed& feed = *feeds_[process];
    const auto event = feed.head(count);  // it is there already: can't fail
    const bool was_blocked = feed.blocked;
    const EventId id = feed.id();
    Group& operation = group->second;
    const std::uint32_t number = operation.number;
    const bool gone = ++operation.passed == operation.members;
    emit(id, **event, {}, number, whole);
    if (was_blocked) ready_.push_back(process);
    if (gone) groups_.erase(group);
}

}  // namespace cairn::causality
