// What Linearizer does when no process can go on: the trace contradicts itself, or a part of it was lost.
#include <algorithm>

#include "causality/feed.h"

namespace cairn::causality {

Result<> Linearizer::unblock() {
    bool all_done = true, progress = false;
    for (Process process = 0; process < feeds_.size(); ++process) {
        if (feeds_[process]->at_end()) continue;
        all_done = false;
        const auto done = TRY(give_up(process));
        progress = progress || done;
    }
    if (all_done || progress) return {};
    for (Process process = 0; process < feeds_.size(); ++process)
        if (!feeds_[process]->at_end()) return circle(process);
    return {};
}

// Whom the head of this process waits for.
Process Linearizer::waits_for(Process process) {
    std::uint64_t count = 0;
    const auto head = feeds_[process]->head(count);
    const Event& event = **head;  // it is there: the process isn't at its end
    if (event.kind == Kind::receive || event.shape == Shape::from_root) return event.peer;
    const Group& operation = groups_.find({event.communicator, count})->second;
    Process missing = none;
    for (const Process member : *members_of(event.communicator)) {
        if (std::find(operation.arrived.begin(), operation.arrived.end(), member) != operation.arrived.end())
            continue;
        // One that is only late rather than one that will never come: what it brings belongs before the root.
        if (missing == none || !feeds_[member]->at_end()) missing = member;
    }
    return missing;
}

// Whether something could be done about the wait of this process, because nobody whom it waits for has more
// events.
Result<bool> Linearizer::give_up(Process process) {
    Feed& feed = *feeds_[process];
    std::uint64_t count = 0;
    const auto head = feed.head(count);
    const Event& event = **head;
    const Process missing = waits_for(process);
    if (!feeds_[missing]->at_end()) return false;
    const bool needs_message = event.kind == Kind::receive || event.shape == Shape::from_root;
    if (!needs_message) {
        // The program ended, or was killed, in the middle of this operation.
        pass(groups_.find({event.communicator, count}), process, false);
        ready_.push_back(process);
        return true;
    }
    if (feeds_[missing]->ended())
        return refuse(
            feed.id(), event,
            event.kind == Kind::receive
                ? fmt::format("process {} never sends this message, or it was received before", missing)
                : fmt::format("process {}, the root, has no part in this operation", missing));
    notes_.push_back(fmt::format("{}: sent in the part of process {} that is lost; left out from here on",
                                 event_text(feed.id(), event), missing));
    feed.cut();
    return true;
}

std::unexpected<Error> Linearizer::circle(Process process) {
    for (std::size_t i = 0; i < feeds_.size(); ++i) process = waits_for(process);
    std::string text;
    const Process first = process;
    std::size_t length = 0;
    do {
        std::uint64_t count = 0;
        const auto head = feeds_[process]->head(count);
        constexpr std::size_t most = 8;
        if (length < most)
            text += (length == 0 ? "" : ", waits for ") + event_text(feeds_[process]->id(), **head);
        if (length == most) text += ", ...";
        process = waits_for(process);
        ++length;
    } while (process != first);
    if (length == 1)
        return fail_code(ExitCode::damaged, "{}: the message is received before the process itself sends it",
                         text);
    return fail_code(ExitCode::damaged,
                     "a circle of events that wait for each other: {}, waits for the first", text);
}

std::unexpected<Error> Linearizer::refuse(EventId id, const Event& event, const std::string& why) const {
    return fail_code(ExitCode::damaged, "{}: {}", event_text(id, event), why);
}

std::string Linearizer::event_text(EventId id, const Event& event) const {
    std::string place;
    if (event.place != 0 && event.place < source_.places().size())
        place = "; " + describe(source_.places()[event.place]);
    return fmt::format("process {}, event {} ({}{})", id.process, id.position, describe(event), place);
}

std::uint32_t Linearizer::channel(const Event& event, Process source, Process destination) {
    const Channel key{std::uint64_t{source} << 32 | destination,
                      std::uint64_t{event.communicator} << 32 | static_cast<std::uint32_t>(event.tag)};
    const auto [found, is_new] = channels_.try_emplace(key, static_cast<std::uint32_t>(channels_.size()));
    if (is_new) sent_.push_back(0);
    return found->second;
}

const std::vector<Process>* Linearizer::members_of(std::uint32_t communicator) const {
    if (communicator == 0) return &everybody_;
    const auto found = communicators_.find(communicator);
    return found == communicators_.end() ? nullptr : &found->second->members;
}

}  // namespace cairn::causality
