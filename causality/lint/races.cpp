// Receives from anybody: which message each could have had instead, when everything else up to there is as it
// was.
//
// At one process a match needs others before it, by MPI's rules (MPI 4.0, 3.5): receive x gets message m only
// when each receive posted earlier that would have taken m has its message, and each earlier message of m's
// sender that x would have taken has its receive. Let C be the first event that shows that receive r has its
// message: the event that completes r, or another receive whose match needs r's. All that doesn't happen
// after C could have happened before it. Of what is sent to the process, the messages of receives posted
// before r are taken; of what is left r would get the first of some sender that fits what it asked for. So of
// each other sender there is one candidate. It is one if C doesn't happen before its send, and if what its
// match needs doesn't either.
#include <algorithm>
#include <optional>
#include <set>

#include "causality/lint/loaded.h"

namespace cairn::causality {
namespace {

// Of one process: what is sent to it, by communicator, sender and tag.
class Mailbox {
  public:
    explicit Mailbox(const Computation& computation) : c_(computation) {}
    void add(Index send) {
        const Event& event = c_.event(send);
        by_sender_[{event.communicator, c_.process_of(send)}][event.tag].sends.push_back(send);
    }
    void take(Index send) {
        const Event& event = c_.event(send);
        Queue& queue = by_sender_[{event.communicator, c_.process_of(send)}][event.tag];
        taken_.insert_or_assign(send, true);
        while (queue.head < queue.sends.size() && taken_.contains(queue.sends[queue.head]))
            taken_.erase(queue.sends[queue.head++]);
    }
    // The first of this sender that fits; none.
    [[nodiscard]] Index first(std::uint32_t communicator, Process sender, bool any_tag,
                              std::int32_t tag) const {
        const auto found = by_sender_.find({communicator, sender});
        if (found == by_sender_.end()) return none;
        Index first = none;
        for (const auto& [its_tag, queue] : found->second)
            if ((any_tag || its_tag == tag) && queue.head < queue.sends.size())
                first = std::min(first, queue.sends[queue.head]);
        return first;
    }
    template <class F>
    void for_each_sender(std::uint32_t communicator, const F& visit) const {
        for (auto at = by_sender_.lower_bound({communicator, 0});
             at != by_sender_.end() && at->first.first == communicator; ++at)
            visit(at->first.second);
    }

  private:
    struct Queue {
        std::vector<Index> sends;
        std::size_t head = 0;
    };
    const Computation& c_;
    std::map<std::pair<std::uint32_t, Process>, std::map<std::int32_t, Queue>> by_sender_;
    std::map<Index, bool> taken_;  // behind the heads
};

// A receive, or a probe that found a message, by when it was posted.
struct Choice {
    Index posted, knows;  // `knows`: its event; none of a receive that was never completed
    bool receives;
    Event asks;  // of what it asks for: peer (none: any), communicator, tag, Flag::any_tag
    bool any_source;
    Index got = none;    // the send of its message
    Index shown = none;  // the first event that shows that it has it
};

bool fits(const Choice& choice, Process from, const Event& message) {
    return choice.asks.communicator == message.communicator &&
           (choice.any_source || choice.asks.peer == from) &&
           (choice.asks.has(Flag::any_tag) || choice.asks.tag == message.tag);
}

std::vector<Choice> choices_of(const Computation& c, Process p, bool tells) {
    std::vector<Choice> all;
    std::map<std::uint32_t, Index> posts;
    for (Index e = c.first(p); e < c.first(p) + c.size(p); ++e) {
        const Event& event = c.event(e);
        const bool any = event.has(Flag::any_source) || (!tells && event.has(Flag::nondeterministic));
        const bool probes = (event.kind == Kind::internal || event.kind == Kind::post) &&
                            event.peer != none && !event.has(Flag::asks);
        // A probe that takes its message away (Mprobe) is the post of its receive: asked before it is taken.
        if (probes) all.push_back({e, e, false, event, any});
        if (event.kind == Kind::post) posts[event.request] = e;
        const auto post = event.closes() ? posts.find(event.request) : posts.end();
        if (event.kind == Kind::receive)
            all.push_back({post != posts.end() ? post->second : e, e, true, event, any});
        if (post != posts.end()) posts.erase(post);
    }
    for (const auto& [request, e] : posts)
        if (c.event(e).has(Flag::asks))
            all.push_back({e, none, true, c.event(e), c.event(e).has(Flag::any_source)});
    std::stable_sort(all.begin(), all.end(),
                     [](const Choice& a, const Choice& b) { return a.posted < b.posted; });
    return all;
}

// Of one process.
class Choices {
  public:
    // `box` has all that is sent to the process.
    Choices(const Computation& c, Process p, bool tells, const Mailbox& box)
        : c_(c), all_(choices_of(c, p, tells)), first_shown_(all_.size() + 1, none) {
        find_messages(box);
        for (std::size_t i = all_.size(); i-- > 0;) {
            all_[i].shown = all_[i].knows;
            for (std::size_t k = i + 1; k < all_.size() && first_shown_[k] < all_[i].shown; ++k)
                if (all_[k].shown < all_[i].shown && needs(all_[k], all_[i])) all_[i].shown = all_[k].shown;
            first_shown_[i] = std::min(first_shown_[i + 1], all_[i].shown);
        }
    }
    [[nodiscard]] const std::vector<Choice>& all() const { return all_; }
    // before(a, b): event a happens before b.
    template <class Before>
    void find(Mailbox box, const Before& before, std::vector<Race>& into) {
        for (std::size_t i = 0; i < all_.size(); ++i) {
            const Choice& choice = all_[i];
            const Event& asks = choice.asks;
            if (choice.any_source && choice.knows != none)
                box.for_each_sender(asks.communicator, [&](Process sender) {
                    if (sender == asks.peer) return;
                    const Index other =
                        box.first(asks.communicator, sender, asks.has(Flag::any_tag), asks.tag);
                    if (other != none && !before(choice.shown, other) && may_have(choice, other, before))
                        into.push_back({choice.knows, choice.got, other, choice.posted});
                });
            if (!choice.receives) continue;
            if (choice.knows != none) box.take(choice.got);
            if (choice.knows != choice.posted) open_.emplace(choice.knows, i);
        }
    }

  private:
    void find_messages(Mailbox box) {
        for (Choice& choice : all_) {
            if (!choice.receives)
                choice.got = box.first(choice.asks.communicator, choice.asks.peer, false, choice.asks.tag);
            else if (choice.knows != none)
                box.take(choice.got = c_.partner(choice.knows));
        }
    }
    // Whether x's match, or what a probe found, needs that of y, which was posted before it.
    [[nodiscard]] bool needs(const Choice& x, const Choice& y) const {
        if (x.got == none || !y.receives) return false;
        const Process sender = c_.process_of(x.got);
        if (fits(y, sender, c_.event(x.got))) return true;
        return y.got != none && y.got < x.got && c_.process_of(y.got) == sender &&
               fits(x, sender, c_.event(y.got));
    }
    // Whether everything that the match of this message with r needs can be there before r shows that it has
    // its own.
    template <class Before>
    [[nodiscard]] bool may_have(const Choice& r, Index message, const Before& before) const {
        Choice match = r;
        match.got = message;
        std::vector<const Choice*> left = {&match};
        std::set<const Choice*> seen;
        while (!left.empty()) {
            const Choice& x = *left.back();
            left.pop_back();
            // What was complete before can't need anything later.
            for (auto at = open_.upper_bound(r.shown); at != open_.end(); ++at) {
                const Choice& y = all_[at->second];
                if (y.posted >= x.posted || !needs(x, y) || !seen.insert(&y).second) continue;
                if (y.knows == none || before(r.shown, y.got)) return false;
                left.push_back(&y);
            }
        }
        return true;
    }

    const Computation& c_;
    std::vector<Choice> all_;
    std::vector<Index> first_shown_;          // of this and those behind it
    std::multimap<Index, std::size_t> open_;  // posted so far, with requests, by when they know
};

// The computation with each message received where that is first shown: its events come to stand elsewhere.
class EarlierReceives {
  public:
    EarlierReceives(const Computation& c, const std::vector<Choices>& choices)
        : c_(c), moved_to_(c.size(), none) {
        bool any = false;
        for (const Choices& each : choices)
            for (const Choice& choice : each.all())
                if (choice.receives && choice.shown < choice.knows) {
                    moved_to_[choice.knows] = choice.shown;
                    any = true;
                }
        if (any) make();
    }
    // Nothing: no event is to be moved, or they say what no MPI does, and the order stays as it was.
    [[nodiscard]] const std::optional<Computation>& made() const { return made_; }
    [[nodiscard]] Index at(Index event) const { return at_.empty() ? event : at_[event]; }

  private:
    void make() {
        MemoryTrace trace(c_.processes());
        for (const Communicator& each : c_.communicators()) trace.communicator(each);
        std::vector<Index> moved;
        for (Index e = 0; e < c_.size(); ++e)
            if (moved_to_[e] != none) moved.push_back(e);
        std::stable_sort(moved.begin(), moved.end(),
                         [&](Index a, Index b) { return moved_to_[a] < moved_to_[b]; });
        std::vector<EventId> ids;
        auto next = moved.begin();
        for (Process p = 0; p < c_.processes(); ++p) {
            trace.set_ended(p, false);
            std::set<std::uint32_t> collectives;
            for (Index e = c_.first(p); e < c_.first(p) + c_.size(p); ++e) {
                for (; next != moved.end() && moved_to_[*next] == e; ++next) trace.append(p, receive(*next));
                ids.push_back({p, static_cast<Position>(trace.events(p).size())});
                trace.append(p, moved_to_[e] != none ? Event{} : plain(e, collectives));
            }
        }
        auto loaded = Computation::load(trace);
        if (!loaded || loaded->size() != c_.size() + moved.size()) return;
        made_ = std::move(*loaded);
        for (const EventId id : ids) at_.push_back(made_->index(id));
    }
    [[nodiscard]] std::uint64_t number(Index send) const { return std::uint64_t{c_.id(send).position} + 1; }
    [[nodiscard]] Event receive(Index e) const {
        const Event& event = c_.event(e);
        return {.kind = Kind::receive,
                .peer = event.peer,
                .communicator = event.communicator,
                .tag = event.tag,
                .message = number(c_.partner(e))};
    }
    // Messages are told apart by numbers now; only collectives have requests.
    [[nodiscard]] Event plain(Index e, std::set<std::uint32_t>& collectives) const {
        Event event = c_.event(e);
        event.place = event.type = 0;
        event.bytes = unknown_bytes;
        if (event.kind == Kind::receive) return receive(e);
        if (event.kind == Kind::post && event.has(Flag::for_collective)) collectives.insert(event.request);
        const bool of_collective = collectives.contains(event.request) && event.kind != Kind::send;
        if (event.closes()) collectives.erase(event.request);
        if (event.kind == Kind::collective || of_collective) return event;
        if (event.kind != Kind::send) return {};
        event.request = 0;
        event.flags = 0;
        event.message = number(e);
        return event;
    }

    const Computation& c_;
    std::vector<Index> moved_to_;  // none: it stays
    std::vector<Index> at_;
    std::optional<Computation> made_;
};

}  // namespace

std::vector<Race> races_of(const Computation& c, bool tells) {
    std::vector<Race> races;
    std::vector<Mailbox> boxes(c.processes(), Mailbox(c));
    for (Index e = 0; e < c.size(); ++e)
        if (c.event(e).kind == Kind::send) boxes[c.event(e).peer].add(e);
    std::vector<Choices> choices;
    for (Process p = 0; p < c.processes(); ++p) choices.emplace_back(c, p, tells, boxes[p]);
    const EarlierReceives earlier(c, choices);
    const ClockTable clocks(earlier.made() ? *earlier.made() : c);
    const auto before = [&](Index a, Index b) { return clocks.before(earlier.at(a), earlier.at(b)); };
    for (Process p = 0; p < c.processes(); ++p) choices[p].find(boxes[p], before, races);
    return races;
}

void find_races(const LintLoaded& loaded, const Computation& c, Findings& into) {
    for (const Race& race : races_of(c, loaded.tells)) {
        const auto spot = [&](Index e) { return Spot{c.process_of(e), c.id(e).position, c.event(e).place}; };
        std::vector<Spot> spots = {spot(race.posted)};
        if (race.got != none) spots.push_back(spot(race.got));
        spots.push_back(spot(race.other));
        into.add(Fault::race, spots, [&] {
            const char* verb = c.event(race.receive).kind == Kind::receive ? "got" : "found";
            return fmt::format(
                "{} {} the message of {}; that of {} could have come first", into.text(spots[0]), verb,
                race.got != none ? into.text(spots[1]) : fmt::format("rank {}", c.event(race.receive).peer),
                into.text(spots.back()));
        });
    }
}

}  // namespace cairn::causality
