#include "causality/simulate.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <queue>
#include <unordered_map>

#include "causality/channels.h"
#include "causality/protocol/together.h"

namespace cairn::causality {
namespace {

class Random {  // splitmix64: the same run everywhere
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t number() {
        std::uint64_t x = state_ += 0x9e3779b97f4a7c15U;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
        x = (x ^ x >> 27) * 0x94d049bb133111ebU;
        return x ^ x >> 31;
    }
    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>((number() >> 32) * std::uint64_t{bound} >> 32);
    }
    double exponential(double mean) {
        return -mean * std::log1p(-static_cast<double>(number() >> 11) * 0x1p-53);
    }

  private:
    std::uint64_t state_;
};

// Whom a process writes to next.
class Partners {
  public:
    Partners(Traffic traffic, Process n)
        : traffic_(traffic),
          n_(n),
          side_(std::max<Process>(1, static_cast<Process>(std::sqrt(static_cast<double>(n))))) {}
    Process pick(Process p, std::uint64_t turn, Random& random) const {
        Process to = p;
        switch (traffic_) {
            case Traffic::ring:
                to = (p + 1) % n_;
                break;
            case Traffic::client_server: {
                // A tenth are servers; clients ask them in turn, servers answer anybody.
                const Process servers = std::max<Process>(1, n_ / 10);
                to = p < servers ? servers + random.below(std::max<Process>(1, n_ - servers))
                                 : random.below(servers);
                break;
            }
            case Traffic::stencil: {
                const Process row = p / side_, column = p % side_, rows = (n_ + side_ - 1) / side_;
                const Process down = (row + 1) % rows * side_ + column;
                const Process up = (row + rows - 1) % rows * side_ + column;
                const Process next[] = {down, up, row * side_ + (column + 1) % side_,
                                        row * side_ + (column + side_ - 1) % side_};
                to = next[turn % 4];
                break;
            }
            case Traffic::random:
                to = random.below(n_);
                break;
            case Traffic::groups: {
                // Groups of 8 that share 4 with each neighbour.
                const Process begin = p / 4 * 4;
                to = (begin + random.below(8)) % n_;
                break;
            }
        }
        return to == p || to >= n_ ? (p + 1) % n_ : to;
    }

  private:
    Traffic traffic_;
    Process n_, side_;
};

// The rollback-dependency graph while it grows, with the edges of each interval in a list.
class Growing {
  public:
    explicit Growing(Process n) : nodes_(n) {
        for (Process p = 0; p < n; ++p) open_interval(p);
    }
    void open_interval(Process p) {
        nodes_[p].push_back(static_cast<std::uint32_t>(first_edge_.size()));
        first_edge_.push_back(none);
        owner_.emplace_back(p, static_cast<std::uint32_t>(nodes_[p].size()));
    }
    [[nodiscard]] std::uint32_t interval(Process p) const { return nodes_[p].back(); }
    void message(std::uint32_t from, std::uint32_t to) {
        // Mostly the same two intervals again.
        if (from == to || (first_edge_[from] != none && edges_[first_edge_[from]].to == to)) return;
        edges_.push_back({to, first_edge_[from]});
        first_edge_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
    }
    struct Line {
        std::uint64_t undone = 0;
        std::uint32_t most = 0, rounds = 0;
        bool to_start = false;
    };
    [[nodiscard]] Line fail(Process failed) const {
        std::vector<std::uint32_t> kept(nodes_.size());
        for (Process p = 0; p < nodes_.size(); ++p)
            kept[p] = static_cast<std::uint32_t>(nodes_[p].size()) + 1;
        std::vector<std::uint32_t> level{nodes_[failed].back()}, next;
        Line line;
        for (std::uint32_t round = 0; !level.empty(); ++round) {
            for (const std::uint32_t each : level) {
                const auto [p, interval] = owner_[each];
                if (interval >= kept[p]) continue;
                line.rounds = round;
                for (std::uint32_t i = interval; i < kept[p]; ++i) {
                    if (i > nodes_[p].size()) break;
                    for (std::uint32_t e = first_edge_[nodes_[p][i - 1]]; e != none; e = edges_[e].next)
                        next.push_back(edges_[e].to);
                }
                kept[p] = interval;
            }
            level.swap(next);
            next.clear();
        }
        for (Process p = 0; p < nodes_.size(); ++p) {
            const auto last = static_cast<std::uint32_t>(nodes_[p].size());
            // The failed one has no state but its last checkpoint; whom nothing reaches keeps the state it
            // has.
            const std::uint32_t undone = kept[p] > last ? 0 : last - kept[p] + (p == failed ? 0 : 1);
            line.undone += undone;
            line.most = std::max(line.most, undone);
            line.to_start = line.to_start || (kept[p] == 1 && undone > 0);
        }
        return line;
    }

  private:
    struct Edge {
        std::uint32_t to, next;
    };
    std::vector<std::vector<std::uint32_t>> nodes_;  // of each process
    std::vector<std::pair<Process, std::uint32_t>> owner_;
    std::vector<std::uint32_t> first_edge_;
    std::vector<Edge> edges_;
};

class Simulation {
  public:
    Simulation(const Scenario& scenario, ProtocolKind kind)
        : scenario_(scenario),
          n_(scenario.recorded != nullptr ? scenario.recorded->processes() : scenario.processes),
          pattern_(n_),
          graph_(n_),
          protocol_(make_together(kind, n_, scenario.encoding)) {
        outcome_.protocol = kind;
    }

    Outcome run() {
        const auto began = std::chrono::steady_clock::now();
        if (scenario_.recorded != nullptr)
            replay();
        else
            make_up();
        if (outcome_.failures > 0) {
            outcome_.mean_undone = static_cast<double>(undone_) / outcome_.failures;
            outcome_.mean_domino = static_cast<double>(rounds_) / outcome_.failures;
        }
        outcome_.useless = Zigzag(pattern_).useless().size();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        outcome_.seconds = took.count();
        return outcome_;
    }

  private:
    struct Transit {
        Process from = 0, to = 0;
        std::uint32_t message = 0, interval = 0;
    };
    struct Event {
        double time;
        std::uint32_t what;  // a process's send (2p), its checkpoint (2p + 1), or an arrival (behind those)
        bool operator>(const Event& other) const { return time > other.time; }
    };

    void take_checkpoint(Process p, bool forced) {
        protocol_->take_checkpoint(p);
        outcome_.logged += protocol_->log_size(p);
        ++(forced ? outcome_.forced : outcome_.basic);
        pattern_.checkpoint(p, forced);
        graph_.open_interval(p);
    }
    // The slot in which it travels.
    std::uint32_t send(Process from, Process to) {
        std::uint32_t slot = static_cast<std::uint32_t>(transit_.size());
        if (unused_.empty()) {
            transit_.emplace_back();
        } else {
            slot = unused_.back();
            unused_.pop_back();
        }
        const std::size_t size = protocol_->send(from, to, slot);
        transit_[slot] = {from, to, pattern_.send(from), graph_.interval(from)};
        ++outcome_.messages;
        outcome_.control_bytes += size;
        outcome_.most_control_bytes = std::max<std::uint64_t>(outcome_.most_control_bytes, size);
        return slot;
    }
    void arrive(std::uint32_t slot) {
        const Transit message = transit_[slot];
        if (protocol_->receive(message.to, slot)) take_checkpoint(message.to, true);
        protocol_->deliver(message.to, slot);
        pattern_.receive(message.to, message.message);
        graph_.message(message.interval, graph_.interval(message.to));
        unused_.push_back(slot);
    }
    void fail(Process p) {
        const Growing::Line line = graph_.fail(p);
        ++outcome_.failures;
        undone_ += line.undone;
        rounds_ += line.rounds;
        outcome_.most_undone = std::max(outcome_.most_undone, line.most);
        outcome_.most_domino = std::max(outcome_.most_domino, line.rounds);
        if (line.to_start) ++outcome_.to_start;
    }
    void fail_when_due(std::uint64_t done, std::uint64_t all, Random& random) {
        if (outcome_.failures < scenario_.failures &&
            done * (scenario_.failures + 1) >= all * (outcome_.failures + 1))
            fail(random.below(n_));
    }

    void make_up() {
        // Each question its own stream of numbers: protocols don't change the traffic.
        Random traffic(scenario_.seed), times(scenario_.seed ^ 0x5eed), checkpoints(scenario_.seed ^ 0xc4ec),
            failures(scenario_.seed ^ 0xfa11);
        const Partners partners(scenario_.traffic, n_);
        std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
        for (Process p = 0; p < n_; ++p) {
            events.push({times.exponential(1), 2 * p});
            if (scenario_.checkpoint_every > 0)
                events.push({checkpoints.exponential(scenario_.checkpoint_every), 2 * p + 1});
        }
        PerChannel<double> last(n_);  // arrival
        std::vector<std::uint64_t> turns(n_);
        pattern_.reserve(static_cast<std::size_t>(2 * scenario_.messages));
        while (outcome_.messages < scenario_.messages || transit_.size() > unused_.size()) {
            const Event event = events.top();
            events.pop();
            if (event.what >= 2 * n_) {
                arrive(event.what - 2 * n_);
            } else if (outcome_.messages >= scenario_.messages) {
                continue;  // only what is on its way
            } else if (event.what % 2 == 1) {
                take_checkpoint(event.what / 2, false);
                events.push({event.time + checkpoints.exponential(scenario_.checkpoint_every), event.what});
            } else {
                const Process from = event.what / 2, to = partners.pick(from, turns[from]++, traffic);
                const std::uint32_t slot = send(from, to);
                double arrival = event.time + times.exponential(scenario_.delay);
                if (scenario_.fifo) {
                    double& before = last(from, to);
                    before = arrival = std::max(arrival, std::nextafter(before, 1e300));
                }
                events.push({arrival, 2 * n_ + slot});
                events.push({event.time + times.exponential(1), event.what});
                fail_when_due(outcome_.messages, scenario_.messages, failures);
            }
        }
    }

    void replay() {
        Random failures(scenario_.seed ^ 0xfa11);
        const Pattern& recorded = *scenario_.recorded;
        // Collective operations become messages from each sender to each receiver.
        std::vector<std::vector<Process>> receivers(recorded.messages());
        for (const Pattern::Step& step : recorded.steps())
            if (step.what() == Pattern::What::receive) receivers[step.message].push_back(step.process());
        std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> slots;  // message and receiver -> slots
        std::uint64_t done = 0;
        for (const Pattern::Step& step : recorded.steps()) {
            const Process p = step.process();
            fail_when_due(++done, recorded.steps().size(), failures);
            if (step.what() == Pattern::What::basic) take_checkpoint(p, false);
            if (step.what() == Pattern::What::send) {
                for (const Process to : receivers[step.message])
                    if (to != p) slots[std::uint64_t{step.message} * n_ + to].push_back(send(p, to));
            } else if (step.what() == Pattern::What::receive) {
                const auto found = slots.find(std::uint64_t{step.message} * n_ + p);
                if (found == slots.end()) continue;
                // Of an operation's messages as in a process that runs: by their senders.
                std::ranges::sort(found->second, {}, [&](std::uint32_t slot) { return transit_[slot].from; });
                for (const std::uint32_t slot : found->second) arrive(slot);
                slots.erase(found);
            }
        }
    }

    const Scenario& scenario_;
    Process n_;
    Pattern pattern_;
    Growing graph_;
    std::unique_ptr<Together> protocol_;
    std::vector<Transit> transit_;
    std::vector<std::uint32_t> unused_;
    std::uint64_t undone_ = 0, rounds_ = 0;
    Outcome outcome_;
};

}  // namespace

std::string_view name(Traffic traffic) {
    constexpr std::array<std::string_view, 5> names = {"ring", "client-server", "stencil", "random",
                                                       "groups"};
    return names[static_cast<std::size_t>(traffic)];
}

std::optional<Traffic> traffic_named(std::string_view name_of_it) {
    for (const Traffic traffic : every_traffic)
        if (name(traffic) == name_of_it) return traffic;
    return std::nullopt;
}

Outcome simulate(const Scenario& scenario, ProtocolKind protocol) {
    return Simulation(scenario, protocol).run();
}

}  // namespace cairn::causality
