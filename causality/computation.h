// A trace that makes sense, in memory: what the analyses work on.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "causality/trace.h"

namespace cairn::causality {

// An event's number over all processes: those of process 0 first.
using Index = std::uint32_t;

struct Group {
    std::uint32_t communicator = 0;
    Shape shape = Shape::alone;
    Process root = none;
    std::vector<Index> members;
    bool whole = false;  // every member of the communicator has its part in the trace
};

// 58 bytes for each event.
class Computation {
  public:
    // Reads all of the trace. At most 2^32 - 2 events.
    [[nodiscard]] static Result<Computation> load(TraceSource& source);

    [[nodiscard]] Process processes() const { return static_cast<Process>(first_.size() - 1); }
    [[nodiscard]] Index size() const { return first_.back(); }
    [[nodiscard]] Position size(Process process) const { return first_[process + 1] - first_[process]; }
    [[nodiscard]] Index first(Process process) const { return first_[process]; }
    [[nodiscard]] Index index(EventId id) const { return first_[id.process] + id.position; }
    [[nodiscard]] EventId id(Index index) const {
        const Process process = process_of(index);
        return {process, index - first_[process]};
    }
    [[nodiscard]] Process process_of(Index index) const;
    [[nodiscard]] const Event& event(Index index) const { return events_[index]; }
    [[nodiscard]] const Event& event(EventId id) const { return events_[index(id)]; }
    // Of a send its receive, of a receive its send, `none` for a message that wasn't received and for other
    // events.
    [[nodiscard]] Index partner(Index index) const {
        return events_[index].kind == Kind::collective ? none : link_[index];
    }
    // Of a collective event.
    [[nodiscard]] const Group& group(Index index) const { return groups_[link_[index]]; }
    [[nodiscard]] std::uint32_t group_number(Index index) const { return link_[index]; }
    [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
    // All events, each behind its causes; whole operations of shape `all` in one piece, but for members that
    // begin with a post, which come later.
    [[nodiscard]] std::span<const Index> order() const { return order_; }

    [[nodiscard]] const std::vector<Place>& places() const { return places_; }
    [[nodiscard]] const Place& place(Index index) const { return places_[events_[index].place]; }
    [[nodiscard]] const std::vector<Communicator>& communicators() const { return communicators_; }
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
    [[nodiscard]] std::uint64_t in_transit() const { return in_transit_; }

    // "process 3, event 17 (receive from 1, tag 5; solver.c:88)"
    [[nodiscard]] std::string text(Index index) const;

  private:
    std::vector<Event> events_;
    std::vector<Index> link_;
    std::vector<Index> order_;
    std::vector<Index> first_;
    std::vector<Group> groups_;
    std::vector<Place> places_;
    std::vector<Communicator> communicators_;
    std::vector<std::string> notes_;
    std::uint64_t in_transit_ = 0;
};

// Of collective operations that begin with a post, an event of their own: by the event in which a process's
// part ends, that post. What the process gives to the operation leaves there.
[[nodiscard]] std::unordered_map<Index, Index> beginnings_of(const Computation& computation);

struct TraceSummary {
    Process processes = 0;
    std::uint64_t events = 0, sends = 0, receives = 0, collectives = 0, checkpoints = 0;
    std::uint64_t in_transit = 0;
    std::vector<std::string> notes;
};

// Reads a trace to its end without keeping it: for traces larger than memory.
[[nodiscard]] Result<TraceSummary> check_trace(TraceSource& source);

}  // namespace cairn::causality
