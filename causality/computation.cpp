#include "causality/computation.h"

#include <algorithm>

#include "causality/linearize.h"

namespace cairn::causality {

Result<Computation> Computation::load(TraceSource& source) {
    const Process n = source.processes();
    Computation made;
    std::vector<std::vector<Event>> events(n);
    std::vector<EventId> order;
    // Partners and groups by process and position, until all sizes are known.
    std::vector<std::vector<EventId>> links(n);
    Linearizer linearizer(source);
    Step step;
    for (;;) {
        const auto more = TRY(linearizer.next(step));
        if (!more) break;
        if (order.size() >= none - 1) return fail("more than 4294967294 events; `check` reads any number");
        order.push_back(step.id);
        events[step.id.process].push_back(step.event);
        EventId link = step.partner;
        if (step.event.kind == Kind::collective) {
            link = {0, step.group};
            if (step.group >= made.groups_.size()) made.groups_.resize(step.group + 1);
            Group& group = made.groups_[step.group];
            group.communicator = step.event.communicator;
            group.shape = step.event.shape;
            group.root = step.event.peer;
        }
        links[step.id.process].push_back(link);
    }
    made.in_transit_ = linearizer.in_transit();
    made.places_ = source.places();
    made.communicators_ = source.communicators();
    made.notes_ = source.notes();
    made.notes_.insert(made.notes_.end(), linearizer.notes().begin(), linearizer.notes().end());

    made.first_.push_back(0);
    made.events_.reserve(order.size());
    for (auto& each : events) {
        made.events_.insert(made.events_.end(), each.begin(), each.end());
        made.first_.push_back(static_cast<Index>(made.events_.size()));
        each = {};
    }
    made.link_.assign(made.events_.size(), none);
    made.order_.reserve(order.size());
    for (const EventId id : order) {
        const Index index = made.index(id);
        made.order_.push_back(index);
        const EventId link = links[id.process][id.position];
        if (made.events_[index].kind == Kind::collective) {
            made.link_[index] = link.position;
            made.groups_[link.position].members.push_back(index);
        } else if (link.process != none) {
            made.link_[index] = made.index(link);
            made.link_[made.index(link)] = index;
        }
    }
    for (Group& group : made.groups_) {
        std::size_t members = n;
        for (const Communicator& each : made.communicators_)
            if (each.id == group.communicator) members = each.members.size();
        group.whole = group.members.size() == members;
    }
    return made;
}

std::unordered_map<Index, Index> beginnings_of(const Computation& computation) {
    std::unordered_map<Index, Index> beginnings;
    for (Process p = 0; p < computation.processes(); ++p) {
        std::unordered_map<std::uint32_t, Index> begun;  // by request
        for (Index e = computation.first(p); e < computation.first(p) + computation.size(p); ++e) {
            const Event& event = computation.event(e);
            if (event.kind == Kind::post && event.has(Flag::for_collective)) begun[event.request] = e;
            if (event.kind != Kind::collective || event.request == 0) continue;
            if (const auto found = begun.find(event.request); found != begun.end())
                beginnings[e] = found->second;
        }
    }
    return beginnings;
}

Process Computation::process_of(Index index) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), index);
    return static_cast<Process>(next - first_.begin() - 1);
}

std::string Computation::text(Index index) const {
    const EventId at = id(index);
    std::string where;
    if (event(index).place != 0) where = "; " + describe(place(index));
    return fmt::format("process {}, event {} ({}{})", at.process, at.position, describe(event(index)), where);
}

Result<TraceSummary> check_trace(TraceSource& source) {
    TraceSummary summary;
    summary.processes = source.processes();
    Linearizer linearizer(source);
    Step step;
    for (;;) {
        const auto more = TRY(linearizer.next(step));
        if (!more) break;
        ++summary.events;
        if (step.event.kind == Kind::send) ++summary.sends;
        if (step.event.kind == Kind::receive) ++summary.receives;
        if (step.event.kind == Kind::collective) ++summary.collectives;
        if (step.event.kind == Kind::checkpoint) ++summary.checkpoints;
    }
    summary.in_transit = linearizer.in_transit();
    summary.notes = source.notes();
    summary.notes.insert(summary.notes.end(), linearizer.notes().begin(), linearizer.notes().end());
    return summary;
}

}  // namespace cairn::causality
