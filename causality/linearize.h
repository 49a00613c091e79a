// One pass over a trace that finds for each receive its send, for each collective its members, and an order
// of all events in which causes come first. What contradicts itself is found here and refused with its event.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "causality/trace.h"

namespace cairn::causality {

struct Step {
    EventId id;
    Event event;
    EventId partner;             // of a receive: its send
    std::uint32_t group = none;  // of a collective: the number of the operation, counted by first appearance
    bool whole = true;           // of a collective of shape `all`: every member has a part in it
};

// The memory it takes is for one block of each process, the messages in transit, the open requests, and,
// where messages are counted and a posted receive is open, the events behind the first receive that it might
// have overtaken.
class Linearizer {
  public:
    // The source is read from where it stands.
    explicit Linearizer(TraceSource& source);
    ~Linearizer();
    Linearizer(const Linearizer&) = delete;
    Linearizer& operator=(const Linearizer&) = delete;

    // The next event, every cause of which came before; false at the end. The members of a whole operation of
    // shape `all` come directly one after the other, but for those that enter it by a post: they come behind
    // the posts of all and behind the members without one. Code damaged: the trace contradicts itself, or its
    // file does.
    [[nodiscard]] Result<bool> next(Step& step);

    // Known at the end:
    [[nodiscard]] std::uint64_t in_transit() const { return in_transit_; }
    // What was left out since it depends on events that a crash cost, as text.
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  private:
    class Feed;
    struct Key {
        std::uint32_t channel;  // or the sender with the highest bit set, for numbered messages
        std::uint64_t number;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const {
            std::uint64_t mixed = (key.number + key.channel * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
            return mixed ^ mixed >> 31;
        }
    };
    struct Slot {
        Process waiter = none;  // who wants to receive it, if it hasn't been sent
        EventId send;
        Process destination = none;
        std::uint32_t communicator = 0;
        std::int32_t tag = 0;
    };
    struct Group {
        std::uint32_t number = 0;
        Event first;  // kind internal as long as only posts are known, which don't say its shape
        EventId first_id;
        std::vector<Process> arrived;
        std::vector<bool> posted;  // by process: who has arrived with an event of its own
        std::vector<Process> waiting;
        std::size_t members = 0;
        std::size_t passed = 0;
        bool root_passed = false;
    };
    using GroupKey = std::pair<std::uint32_t, std::uint64_t>;  // communicator, k-th operation on it
    using Groups = std::map<GroupKey, Group>;
    struct Channel {
        std::uint64_t processes;  // source and destination
        std::uint64_t envelope;   // communicator and tag
        bool operator==(const Channel&) const = default;
    };
    struct ChannelHash {
        std::size_t operator()(const Channel& channel) const {
            std::uint64_t mixed =
                (channel.processes * 0x9e3779b97f4a7c15U ^ channel.envelope) * 0xbf58476d1ce4e5b9U;
            return mixed ^ mixed >> 29;
        }
    };

    Result<> advance(Process process);
    Result<bool> try_event(Process process, const Event& event, std::uint64_t count);
    Result<> emit_send(EventId id, const Event& event);
    Result<bool> try_receive(EventId id, const Event& event, std::uint64_t count);
    Groups::iterator operation_of(const Event& event, std::uint64_t count);
    void enter_by_post(EventId id, const Event& event, std::uint64_t count);
    Result<bool> try_collective(EventId id, const Event& event, std::uint64_t count);
    void pass(Groups::iterator group, Process process, bool whole);
    void emit(EventId id, const Event& event, EventId partner, std::uint32_t group, bool whole);
    Result<> unblock();
    Result<bool> give_up(Process process);
    Process waits_for(Process process);
    std::unexpected<Error> circle(Process process);
    std::unexpected<Error> refuse(EventId id, const Event& event, const std::string& why) const;
    [[nodiscard]] std::string event_text(EventId id, const Event& event) const;
    std::uint32_t channel(const Event& event, Process source, Process destination);
    [[nodiscard]] const std::vector<Process>* members_of(std::uint32_t communicator) const;

    friend class Feed;

    TraceSource& source_;
    std::vector<std::unique_ptr<Feed>> feeds_;
    std::deque<Process> ready_;
    std::deque<Step> out_;
    std::unordered_map<Key, Slot, KeyHash> messages_;
    std::unordered_map<Channel, std::uint32_t, ChannelHash> channels_;
    std::vector<std::uint64_t> sent_;  // for each channel
    Groups groups_;
    std::uint32_t group_count_ = 0;
    std::map<std::uint32_t, const Communicator*> communicators_;
    std::vector<Process> everybody_;
    std::uint64_t in_transit_ = 0;
    std::vector<std::string> notes_;
};

}  // namespace cairn::causality
