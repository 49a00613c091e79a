// Random computations: small ones by the thousand, for comparison with definitions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "causality/pattern.h"
#include "causality/trace.h"

namespace cairn::test {

// The same numbers everywhere (splitmix64), unlike the standard library's distributions.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t number() {
        std::uint64_t x = state_ += 0x9e3779b97f4a7c15U;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
        x = (x ^ x >> 27) * 0x94d049bb133111ebU;
        return x ^ x >> 31;
    }
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(number() % bound); }
    bool chance(std::uint32_t percent) { return below(100) < percent; }

  private:
    std::uint64_t state_;
};

// How many random cases: CAIRN_CASES, else `usual`, fewer under the sanitizers, which are slow. And seeds: a
// fixed one, and a new one each time, which is printed.
inline std::uint32_t cases(std::uint32_t usual) {
    const char* given = std::getenv("CAIRN_CASES");
#ifdef __SANITIZE_ADDRESS__
    usual /= 10;
#endif
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : usual;
}

inline std::vector<std::uint64_t> seeds() {
    const char* given = std::getenv("CAIRN_SEED");
    const std::uint64_t random =
        given != nullptr
            ? std::strtoull(given, nullptr, 10)
            : Random(reinterpret_cast<std::uintptr_t>(&given) ^ static_cast<std::uint64_t>(std::clock()))
                      .number() %
                  1000000007;
    std::printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(random));
    return {1, random};
}

struct PatternShape {
    std::uint32_t processes = 3;
    std::uint32_t steps = 16;
    bool fifo = false;
    std::uint32_t checkpoints = 25;  // percent
};

inline PatternShape random_shape(Random& random) {
    return {.processes = 2 + random.below(4),
            .steps = 4 + random.below(24),
            .fifo = random.chance(50),
            .checkpoints = 10 + random.below(40)};
}

inline causality::Pattern random_pattern(Random& random, const PatternShape& shape) {
    causality::Pattern pattern(shape.processes);
    struct Message {
        causality::Process from, to;
        std::uint32_t number;
    };
    std::deque<Message> transit;
    for (std::uint32_t i = 0; i < shape.steps; ++i) {
        const causality::Process p = random.below(shape.processes);
        if (random.chance(shape.checkpoints)) {
            pattern.checkpoint(p);
        } else if (transit.empty() || random.chance(50)) {
            causality::Process to = random.below(shape.processes - 1);
            if (to >= p) ++to;
            transit.push_back({p, to, pattern.send(p)});
        } else {
            std::size_t at = random.below(static_cast<std::uint32_t>(transit.size()));
            for (std::size_t k = 0; shape.fifo && k < at; ++k)
                if (transit[k].from == transit[at].from && transit[k].to == transit[at].to) at = k;
            pattern.receive(transit[at].to, transit[at].number);
            transit.erase(transit.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    return pattern;
}

struct TraceShape {
    causality::Process processes = 3;
    std::uint32_t events = 14;
    bool numbered = false;  // messages carry their numbers
    bool collectives = true;
    bool requests = false;  // Isend and Irecv with their completions
    bool posts = false;     // collective operations that begin with a post and end in any order
    bool nondeterministic = false;
    bool sized = false;       // bytes, types, what receives ask for; calls that processes stand in; leaks
    bool unfinished = true;   // messages may stay in transit, operations be entered by some only
    std::uint32_t lines = 4;  // of source
};

// In which order the members of a collective operation come: its root first, last or anywhere.
inline std::vector<causality::Process> collective_order(Random& random, causality::Shape what,
                                                        causality::Process root, causality::Process members) {
    using causality::Process;
    using causality::Shape;
    std::vector<Process> order;
    for (Process k = 0; k < members; ++k) order.push_back(k);
    for (Process k = members; k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
    for (Process k = 0; k < members; ++k) {
        const bool first = (what == Shape::from_root) == (order[k] == root);
        if (first) std::swap(order[k], order[what == Shape::from_root ? 0 : k]);
    }
    if (what == Shape::to_root)
        for (Process k = 0; k + 1 < members; ++k)
            if (order[k] == root) std::swap(order[k], order[members - 1]);
    return order;
}

// A run of a made-up program. Times grow along causes.
class RandomTrace {
  public:
    RandomTrace(Random& random, const TraceShape& shape)
        : random_(random),
          shape_(shape),
          trace_(shape.processes),
          sent_(shape.processes),
          open_(shape.processes),
          to_post_(shape.processes) {
        if (pairs()) trace_.communicator({.id = pair_of_two, .members = {0, 1}});
    }
    causality::MemoryTrace make() {
        for (std::uint32_t i = 0; i < shape_.events; ++i)
            if (!step(i)) return std::move(trace_);
        end();
        return std::move(trace_);
    }

  private:
    using Event = causality::Event;
    using Kind = causality::Kind;
    using Process = causality::Process;
    static constexpr std::uint32_t pair_of_two = 7;  // a communicator
    struct Message {
        Process from, to;
        std::int32_t tag;
        std::uint64_t number;
    };
    struct Operation {
        causality::Shape what;
        Process root;
        std::vector<std::uint32_t> request;  // by process; 0: not posted, or ended
        std::vector<bool> posted;
    };

    [[nodiscard]] bool pairs() const { return shape_.collectives && shape_.processes > 2; }
    void add(Process p, Event event) {
        if (shape_.sized && event.sized() && random_.chance(80)) {
            event.bytes = random_.below(3) * 1000;
            event.type = trace_.type(random_.chance(50) ? "MPI_INT" : "{MPI_INT MPI_DOUBLE*2}");
        }
        if (shape_.sized && event.kind == Kind::receive && random_.chance(30)) {
            if (random_.chance(50)) event.flags |= causality::Flag::any_source;
            if (random_.chance(50)) event.flags |= causality::Flag::any_tag;
        }
        event.time = now_ += 1 + random_.below(100);
        if (random_.chance(30)) event.took = random_.below(300);
        if (shape_.lines > 0)
            event.place = trace_.place(
                {.file = "a.c", .line = 1 + random_.below(shape_.lines), .function = "", .call = "MPI_Send"});
        if (shape_.nondeterministic && random_.chance(8)) event.flags |= causality::Flag::nondeterministic;
        if (random_.chance(4) && !trace_.events(p).empty()) event.flags |= causality::Flag::joined;
        trace_.append(p, event);
    }
    // False: nobody goes on behind an operation that isn't whole.
    bool step(std::uint32_t number) {
        const Process p = random_.below(shape_.processes);
        if (shape_.requests && !open_[p].empty() && random_.chance(40)) {
            const std::uint32_t which = random_.below(static_cast<std::uint32_t>(open_[p].size()));
            add(p, {.kind = Kind::complete, .request = open_[p][which]});
            open_[p].erase(open_[p].begin() + which);
            return true;
        }
        if (shape_.posts && random_.chance(40)) {
            if (random_.chance(30)) begin_operation();
            if (random_.chance(50) ? post_one(p) : end_one()) return true;
        }
        if (shape_.collectives && random_.chance(15)) return collective(number);
        if (random_.chance(8))
            add(p, {.kind = random_.chance(50) ? Kind::checkpoint : Kind::internal});
        else if (transit_.empty() || random_.chance(50))
            send(p);
        else
            receive_one();
        return true;
    }
    bool collective(std::uint32_t number) {
        using causality::Shape;
        const std::uint32_t id = pairs() && random_.chance(30) ? pair_of_two : 0;
        const Process members = id == pair_of_two ? 2 : shape_.processes;
        const auto what = static_cast<Shape>(1 + random_.below(3));
        const Process root = what == Shape::all ? causality::none : random_.below(members);
        // In the middle of a rooted one others may go on: left out here but for its beginning.
        const bool whole = !shape_.unfinished || number + 4 < shape_.events || random_.chance(50);
        const auto order = collective_order(random_, what, root, members);
        const Process count = whole ? members : 1 + random_.below(members);
        // Operations of one communicator are entered in one order.
        for (Process k = 0; k < shape_.processes; ++k)
            while (post_one(k)) {
            }
        for (Process k = 0; k < count; ++k)
            add(order[k], {.kind = Kind::collective, .shape = what, .peer = root, .communicator = id});
        return whole;
    }
    void begin_operation() {
        const auto what = static_cast<causality::Shape>(1 + random_.below(3));
        const Process root =
            what == causality::Shape::all ? causality::none : random_.below(shape_.processes);
        operations_.push_back({.what = what, .root = root, .request = {}, .posted = {}});
        operations_.back().request.resize(shape_.processes);
        operations_.back().posted.resize(shape_.processes);
        for (auto& each : to_post_) each.push_back(operations_.size() - 1);
    }
    bool post_one(Process p) {
        if (to_post_[p].empty()) return false;
        Operation& operation = operations_[to_post_[p].front()];
        to_post_[p].pop_front();
        operation.request[p] = ++request_;
        operation.posted[p] = true;
        add(p,
            {.kind = Kind::post, .flags = causality::Flag::for_collective, .request = operation.request[p]});
        return true;
    }
    // Somewhere somebody's part in an operation ends, as soon as it may.
    bool end_one() {
        std::vector<std::pair<Operation*, Process>> may;
        for (Operation& each : operations_)
            for (Process p = 0; p < shape_.processes; ++p) {
                if (each.request[p] == 0) continue;
                const bool all = std::ranges::all_of(each.posted, std::identity());
                const bool is_root = each.root == p;
                if (each.what == causality::Shape::from_root ? is_root || each.posted[each.root]
                    : each.what == causality::Shape::to_root ? !is_root || all
                                                             : all)
                    may.emplace_back(&each, p);
            }
        if (may.empty()) return false;
        const auto [operation, p] = may[random_.below(static_cast<std::uint32_t>(may.size()))];
        add(p, {.kind = Kind::collective,
                .shape = operation->what,
                .peer = operation->root,
                .request = std::exchange(operation->request[p], 0)});
        return true;
    }
    void send(Process p) {
        Process to = random_.below(shape_.processes - 1);
        if (to >= p) ++to;
        const auto tag = static_cast<std::int32_t>(random_.below(2));
        transit_.push_back({p, to, tag, ++sent_[p]});
        Event event{.kind = Kind::send, .peer = to, .tag = tag, .message = shape_.numbered ? sent_[p] : 0};
        if (shape_.requests && random_.chance(40)) open_[p].push_back(event.request = ++request_);
        add(p, event);
    }
    void receive(const Message& message) {
        add(message.to, {.kind = Kind::receive,
                         .peer = message.from,
                         .tag = message.tag,
                         .message = shape_.numbered ? message.number : 0});
    }
    void receive_one() {
        std::size_t at = random_.below(static_cast<std::uint32_t>(transit_.size()));
        for (std::size_t k = 0; !shape_.numbered && k < at; ++k)
            if (transit_[k].from == transit_[at].from && transit_[k].to == transit_[at].to &&
                transit_[k].tag == transit_[at].tag)
                at = k;
        const Message message = transit_[at];
        transit_.erase(transit_.begin() + static_cast<std::ptrdiff_t>(at));
        receive(message);
    }
    void add_ends() {
        for (Process p = 0; p < shape_.processes; ++p) {
            if (!random_.chance(50)) continue;
            causality::Standing standing;
            standing.event = {.kind = random_.chance(50) ? Kind::receive : Kind::complete, .tag = 3};
            if (standing.event.kind == Kind::complete) standing.requests = {1, 300};
            standing.any = random_.chance(50);
            standing.event.place =
                trace_.place({.file = "a.c", .line = 9, .function = "f", .call = "MPI_Recv"});
            trace_.set_standing(p, standing);
            trace_.add_leak({.process = p,
                             .what = causality::Leaked::type,
                             .place = standing.event.place,
                             .count = 1 + p});
        }
    }
    void end() {
        if (shape_.sized) add_ends();
        while (!shape_.unfinished && !transit_.empty()) {
            const Message message = transit_.front();
            transit_.pop_front();
            receive(message);
        }
        const bool finishes = !shape_.unfinished || random_.chance(70);
        for (Process p = 0; p < shape_.processes; ++p)
            while (finishes && post_one(p)) {
            }
        while (finishes && end_one()) {
        }
        for (Process p = 0; p < shape_.processes; ++p)
            for (const std::uint32_t each : open_[p])
                if (!shape_.unfinished || random_.chance(70))
                    add(p, {.kind = Kind::complete, .request = each});
    }

    Random& random_;
    const TraceShape& shape_;
    causality::MemoryTrace trace_;
    std::deque<Message> transit_;
    std::vector<std::uint64_t> sent_;
    std::vector<std::vector<std::uint32_t>> open_;
    std::vector<Operation> operations_;
    std::vector<std::deque<std::size_t>> to_post_;  // by process
    std::int64_t now_ = 1000;
    std::uint32_t request_ = 0;
};

inline causality::MemoryTrace random_trace(Random& random, const TraceShape& shape) {
    return RandomTrace(random, shape).make();
}

}  // namespace cairn::test
