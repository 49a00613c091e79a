// The k-th operation on a communicator is the same for all its members: its function, its kind and its root.
#include "causality/lint/loaded.h"

namespace cairn::causality {
namespace {

struct Entry {
    Spot spot;
    Shape shape = Shape::alone;  // alone: not known, since it was never completed
    Process root = none;
    Position closes = none;  // the event that is its part in the operation; none: it has none
};
// Of each communicator, by member.
using Rows = std::map<std::uint32_t, std::map<Process, std::vector<Entry>>>;

Rows rows_of(const LintLoaded& loaded) {
    Rows rows;
    for (Process p = 0; p < loaded.trace.processes(); ++p) {
        const auto& events = loaded.trace.events(p);
        std::map<std::uint32_t, std::pair<std::uint32_t, std::size_t>> open;  // request -> its entry
        for (Position at = 0; at < events.size(); ++at) {
            const Event& event = events[at];
            const Spot spot{p, at, event.place};
            if (event.kind == Kind::post && event.has(Flag::for_collective)) {
                auto& row = rows[event.communicator][p];
                open[event.request] = {event.communicator, row.size()};
                row.push_back({.spot = spot});
            }
            if (event.kind != Kind::collective) continue;
            const auto post = event.request != 0 ? open.find(event.request) : open.end();
            if (post == open.end()) {
                rows[event.communicator][p].push_back({spot, event.shape, event.peer, at});
                continue;
            }
            Entry& entry = rows[post->second.first][p][post->second.second];
            entry.shape = event.shape;
            entry.root = event.peer;
            entry.closes = at;
            open.erase(post);
        }
        if (const auto& standing = loaded.trace.standing(p);
            standing && standing->event.kind == Kind::collective)
            rows[standing->event.communicator][p].push_back(
                {{p, none, standing->event.place}, standing->event.shape, standing->event.peer, none});
    }
    return rows;
}

std::string text_of(const LintLoaded& loaded, const Findings& findings, const Entry& entry) {
    std::string text = findings.text(entry.spot);
    if (loaded.place(entry.spot.place).call.empty()) text += fmt::format(" ({})", name(entry.shape));
    if (entry.root != none) text += fmt::format(", root {}", entry.root);
    return text;
}

bool differ(const LintLoaded& loaded, const Entry& a, const Entry& b) {
    const std::string& one = loaded.place(a.spot.place).call;
    const std::string& other = loaded.place(b.spot.place).call;
    if (!one.empty() && !other.empty() && one != other) return true;
    if (a.shape == Shape::alone || b.shape == Shape::alone) return false;
    return a.shape != b.shape || a.root != b.root;
}

// From the k-th on nothing on this communicator orders anything.
void take_out(LintLoaded& loaded, const std::map<Process, std::vector<Entry>>& members, std::size_t k) {
    for (const auto& [process, row] : members)
        for (std::size_t i = k; i < row.size(); ++i) {
            if (row[i].closes == none) continue;
            Event& event = loaded.trace.events(process)[row[i].closes];
            event.kind = event.request != 0 ? Kind::complete : Kind::internal;
            event.shape = Shape::alone;
            event.peer = none;
        }
}

}  // namespace

void find_collectives(LintLoaded& loaded, Findings& into) {
    for (const auto& [communicator, members] : rows_of(loaded)) {
        std::size_t longest = 0;
        for (const auto& [process, row] : members) longest = std::max(longest, row.size());
        const auto& everyone = loaded.members(communicator);
        for (std::size_t k = 0; k < longest; ++k) {
            const Entry *first = nullptr, *other = nullptr;
            Process missing = none;
            for (const Process member : everyone) {
                const auto found = members.find(member);
                const bool there = found != members.end() && k < found->second.size();
                if (!there && missing == none && loaded.trace.ended(member)) missing = member;
                if (!there) continue;
                const Entry& entry = found->second[k];
                if (first == nullptr)
                    first = &entry;
                else if (other == nullptr && differ(loaded, *first, entry))
                    other = &entry;
            }
            if (first == nullptr || (other == nullptr && missing == none)) continue;
            const std::string which =
                communicator == 0 ? fmt::format("operation {} of all ranks", k + 1)
                                  : fmt::format("operation {} on communicator {}", k + 1, communicator);
            std::vector<Spot> spots = {first->spot};
            if (other != nullptr) spots.push_back(other->spot);
            into.add(Fault::collective, spots, [&] {
                const std::string one = text_of(loaded, into, *first);
                return other != nullptr
                           ? fmt::format("{}: {}, but {}", which, one, text_of(loaded, into, *other))
                           : fmt::format("{}: {}, but rank {} ends without it", which, one, missing);
            });
            take_out(loaded, members, k);
            break;
        }
    }
}

}  // namespace cairn::causality
