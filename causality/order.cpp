#include "causality/order.h"

#include <algorithm>
#include <utility>

#include "causality/trace_format.h"

namespace cairn::causality {
namespace {

// The bytes are our own: no check.
std::uint32_t read_number(const std::uint8_t*& at) {
    std::uint32_t value = *at & 0x7fU;
    for (unsigned shift = 7; (*at++ & 0x80U) != 0; shift += 7) value |= (*at & 0x7fU) << shift;
    return value;
}

}  // namespace

bool transmits(const Event& event, Process process) {
    if (event.kind == Kind::send) return true;
    if (event.kind != Kind::collective) return false;
    return event.shape == Shape::all || (event.shape == Shape::from_root) == (event.peer == process);
}

ClockTable::ClockTable(const Computation& computation, Tick tick)
    : computation_(computation),
      beginnings_(beginnings_of(computation)),
      tick_(tick),
      lines_(computation.processes()) {
    const Process n = computation.processes();
    now_.assign(n, std::vector<std::uint32_t>(n));
    other_.resize(n);
    if (tick == Tick::transmissions) count_transmissions();
    std::unordered_map<Index, Index> ends;  // by a post
    for (const auto& [end, post] : beginnings_) ends[post] = end;
    struct Gathered {
        std::vector<std::uint32_t> known;
        std::size_t returned = 0;
        bool others = false;  // are in it
    };
    std::unordered_map<std::uint32_t, Gathered> operations;
    for (const Index at : computation.order()) {
        const Event& event = computation.event(at);
        if (event.kind == Kind::receive) arrive(at, computation.partner(at));
        const auto end = event.kind == Kind::post ? ends.find(at) : ends.end();
        if (end == ends.end() && event.kind != Kind::collective) continue;
        const Index part = end != ends.end() ? end->second : at;
        const Group& group = computation.group(part);
        if (group.shape != Shape::all) {
            if (part == at) hear_at_root(at, group);
            continue;
        }
        if (!group.whole) continue;
        const std::uint32_t number = computation.group_number(part);
        Gathered& operation = operations[number];
        operation.known.resize(n);
        if (part != at) {
            gather_post(at, operation.known);
            continue;
        }
        if (entry(at) == at && !std::exchange(operation.others, true)) gather_others(group, operation.known);
        merge(at, operation.known);
        if (++operation.returned == group.members.size()) operations.erase(number);
    }
    now_ = {};
    for (Line& line : lines_) {
        line.differences.shrink_to_fit();
        line.absolute.shrink_to_fit();
    }
}

// At a post what begins there leaves, and not where it ends.
void ClockTable::count_transmissions() {
    sent_.resize(computation_.size());
    std::vector<bool> leaves(computation_.size());
    for (Process p = 0; p < computation_.processes(); ++p)
        for (Index e = computation_.first(p); e < computation_.first(p + 1); ++e)
            if (transmits(computation_.event(e), p)) leaves[entry(e)] = true;
    for (Process p = 0; p < computation_.processes(); ++p) {
        std::uint32_t count = 0;
        for (Index e = computation_.first(p); e < computation_.first(p + 1); ++e)
            sent_[e] = count += leaves[e] ? 1U : 0U;
    }
}

void ClockTable::gather_post(Index post, std::vector<std::uint32_t>& into) {
    const Process p = computation_.process_of(post);
    for (Process k = 0; k < into.size(); ++k) into[k] = std::max(into[k], now_[p][k]);
    into[p] = std::max(into[p], own(post));
}

void ClockTable::gather_others(const Group& group, std::vector<std::uint32_t>& into) {
    for (const Index member : group.members) {
        if (entry(member) != member) continue;
        const Process p = computation_.process_of(member);
        for (Process k = 0; k < into.size(); ++k) into[k] = std::max(into[k], now_[p][k]);
        into[p] = std::max(into[p], entered(member));
    }
}

// The root from all others, or the others from it.
void ClockTable::hear_at_root(Index at, const Group& group) {
    const Event& event = computation_.event(at);
    const bool is_root = event.peer == computation_.process_of(at);
    if (is_root != (event.shape == Shape::to_root)) return;
    for (const Index from : group.members)
        if (from != at && (is_root || computation_.process_of(from) == event.peer)) arrive(at, entry(from));
}

std::uint32_t ClockTable::own(Index event) const {
    if (tick_ == Tick::transmissions) return sent_[event];
    return event - computation_.first(computation_.process_of(event)) + 1;
}

// What a whole collective of shape `all` tells of this member: its return is not known to the others.
std::uint32_t ClockTable::entered(Index event) const {
    return tick_ == Tick::transmissions ? sent_[event] : own(event) - 1;
}

void ClockTable::arrive(Index at, Index from) {
    const Process p = computation_.process_of(from);
    const Line& line = lines_[p];
    const Position position = from - computation_.first(p);
    // The sender has mostly not learned anything since: then its clock is at hand.
    if (line.raised_at.empty() || line.raised_at.back() <= position) {
        const std::uint32_t before = std::exchange(now_[p][p], own(from));
        merge(at, now_[p]);
        now_[p][p] = before;
        return;
    }
    clock(from, other_);
    merge(at, other_);
}

void ClockTable::merge(Index at, std::span<const std::uint32_t> from) {
    const Process p = computation_.process_of(at);
    std::vector<std::uint32_t>& mine = now_[p];
    Line& line = lines_[p];
    const Position position = at - computation_.first(p);
    const auto n = static_cast<Process>(mine.size());
    std::uint32_t raised = 0;
    for (Process k = 0; k < n; ++k) raised += from[k] > mine[k] && k != p ? 1U : 0U;
    if (raised == 0) return;
    // A root hears from several members at one event.
    const bool anchor = line.raised_at.size() % stride == 0;
    if (!anchor) {
        put_varint(line.differences, raised);
        Process last = 0;
        for (Process k = 0; k < n; ++k) {
            if (from[k] <= mine[k] || k == p) continue;
            put_varint(line.differences, k - last);
            put_varint(line.differences, from[k] - mine[k]);
            last = k;
        }
    }
    for (Process k = 0; k < n; ++k)
        if (k != p) mine[k] = std::max(mine[k], from[k]);
    if (anchor) {
        line.anchors.push_back(line.differences.size());
        line.absolute.insert(line.absolute.end(), mine.begin(), mine.end());
    }
    line.raised_at.push_back(position);
}

void ClockTable::clock(Index event, std::span<std::uint32_t> into) const {
    const Process p = computation_.process_of(event);
    const Line& line = lines_[p];
    const Position position = event - computation_.first(p);
    const auto found = std::upper_bound(line.raised_at.begin(), line.raised_at.end(), position);
    const auto records = static_cast<std::size_t>(found - line.raised_at.begin());
    if (records == 0) {
        std::fill(into.begin(), into.end(), 0);
    } else {
        const std::size_t anchor = (records - 1) / stride;
        const std::uint32_t* absolute = line.absolute.data() + anchor * into.size();
        std::copy(absolute, absolute + into.size(), into.begin());
        const std::uint8_t* in = line.differences.data() + line.anchors[anchor];
        for (std::size_t i = anchor * stride + 1; i < records; ++i) {
            Process k = 0;
            for (std::uint32_t count = read_number(in); count > 0; --count) {
                k += read_number(in);
                into[k] += read_number(in);
            }
        }
    }
    into[p] = own(event);
}

std::uint32_t ClockTable::component(Index event, Process of) const {
    const Process p = computation_.process_of(event);
    if (p == of) return own(event);
    const Line& line = lines_[p];
    const Position position = event - computation_.first(p);
    const auto found = std::upper_bound(line.raised_at.begin(), line.raised_at.end(), position);
    const auto records = static_cast<std::size_t>(found - line.raised_at.begin());
    if (records == 0) return 0;
    const std::size_t anchor = (records - 1) / stride;
    std::uint32_t value = line.absolute[anchor * lines_.size() + of];
    const std::uint8_t* in = line.differences.data() + line.anchors[anchor];
    for (std::size_t i = anchor * stride + 1; i < records; ++i) {
        Process k = 0;
        for (std::uint32_t count = read_number(in); count > 0; --count) {
            k += read_number(in);
            const std::uint32_t raise = read_number(in);
            if (k == of) value += raise;
        }
    }
    return value;
}

bool ClockTable::before(Index a, Index b) const {
    const Process p = computation_.process_of(a);
    if (p == computation_.process_of(b)) return a < b;
    const std::uint32_t known = component(b, p);
    if (tick_ == Tick::events) return known > a - computation_.first(p);
    // The first transmission at a or behind it must be known; one of shape `all` leaves when its event's call
    // begins, before the return that the event stands for.
    const bool itself = sent_[a] != (a == computation_.first(p) ? 0 : sent_[a - 1]) &&
                        computation_.event(a).shape != Shape::all;
    return known >= sent_[a] + (itself ? 0 : 1);
}

std::size_t ClockTable::bytes() const {
    std::size_t sum = sent_.size() * sizeof(std::uint32_t);
    for (const Line& line : lines_)
        sum += line.raised_at.size() * sizeof(Position) + line.differences.size() +
               line.anchors.size() * sizeof(std::uint64_t) + line.absolute.size() * sizeof(std::uint32_t);
    return sum;
}

}  // namespace cairn::causality
