// One process's events on their way into the order: which receive of its channel, which operation of its
// communicator each is. Counted in the order of posting, which for receives may need a look ahead: a wildcard
// receive that was posted earlier says only at its completion which channel it took a message from.
#pragma once

#include "causality/linearize.h"

namespace cairn::causality {

class Linearizer::Feed {
  public:
    Feed(Linearizer& owner, Process process) : owner_(owner), process_(process) {}

    // The event at the head and, for counted messages, collectives and their posts, which it is, from 1;
    // nullptr at the end.
    [[nodiscard]] Result<const Event*> head(std::uint64_t& count);
    [[nodiscard]] EventId id() const { return {process_, position_}; }
    void pop();
    // Whatever follows is left out.
    void cut();
    [[nodiscard]] bool at_end() const { return end_ && pending_.empty(); }
    // At its end, and the end is the process's.
    [[nodiscard]] bool ended() const { return at_end() && !cut_ && owner_.source_.ended(process_); }

    // What the owner knows of the head.
    bool entered = false;  // it has been counted as arrived in its operation
    bool blocked = false;

  private:
    struct Pending {
        Event event;
        std::uint64_t count = 0;
        bool known = true;
    };
    struct Posted {
        std::uint64_t order = 0;
        bool collective = false;
        std::uint32_t communicator = 0;  // of a collective operation, and which one of it
        std::uint64_t count = 0;
    };
    // Receives: those posted and not closed, and those closed and not yet counted.
    struct Sequence {
        std::set<std::uint64_t> open;
        std::map<std::uint64_t, std::uint64_t> closed;  // order -> serial number of the pending event
    };

    Result<> pull();
    Result<> note_request(Pending& pending, std::uint64_t& order);
    void number_in_order();

    Linearizer& owner_;
    Process process_;
    Position position_ = 0;  // of the head
    std::uint64_t pulled_ = 0;
    bool end_ = false, cut_ = false;
    std::deque<Pending> pending_;
    std::map<std::uint32_t, Posted> requests_;  // a send's too
    Sequence receives_;
    std::unordered_map<std::uint32_t, std::uint64_t> received_;    // channel -> how many
    std::unordered_map<std::uint32_t, std::uint64_t> operations_;  // communicator -> how many
};

}  // namespace cairn::causality
