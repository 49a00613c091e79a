// What is left over when a program ends: requests, objects, messages; and messages that don't fit their
// receives.
#include <algorithm>

#include "causality/lint/loaded.h"

namespace cairn::causality {

void find_requests(const LintLoaded& loaded, Findings& into) {
    for (Process p = 0; p < loaded.trace.processes(); ++p) {
        if (!loaded.trace.ended(p)) continue;
        const auto& events = loaded.trace.events(p);
        std::map<std::uint32_t, Position> open;
        for (Position at = 0; at < events.size(); ++at) {
            if (events[at].opens()) open[events[at].request] = at;
            if (events[at].closes()) open.erase(events[at].request);
        }
        std::vector<Position> left;
        for (const auto& [request, at] : open) left.push_back(at);
        std::sort(left.begin(), left.end());
        for (const Position at : left) {
            const Spot spot{p, at, events[at].place};
            into.add(Fault::request, {spot}, [&] {
                return fmt::format("{}: its request is never completed and never freed", into.text(spot));
            });
        }
    }
}

void find_leaks(const LintLoaded& loaded, Findings& into) {
    for (const Leak& each : loaded.trace.leaks()) {
        const Spot spot{each.process, none, each.place};
        into.add(
            Fault::leak, {spot},
            [&] {
                return fmt::format("{}: the {}{} that it makes is never freed", into.text(spot),
                                   each.what == Leaked::request ? "persistent " : "", name(each.what));
            },
            each.count);
    }
}

namespace {

bool is_mixed_type(const std::string& type) {
    return type.front() == '{';
}

// MPI 4.0, 3.3.1. Of two that are made of several basic types each, one may be the beginning of the other.
bool types_fit(const std::string& sent, const std::string& received) {
    if (sent.empty() || received.empty() || sent == received) return true;
    if (sent == "MPI_PACKED" || received == "MPI_PACKED") return true;
    return is_mixed_type(sent) && is_mixed_type(received);
}

std::string size_text(const LintLoaded& loaded, const Event& event) {
    const std::string& type = loaded.trace.types()[event.type];
    std::string text;
    if (event.bytes != unknown_bytes)
        text = fmt::format("{}{} bytes", event.bytes == most_bytes ? "at least " : "", event.bytes);
    if (!type.empty()) text += (text.empty() ? "" : " of ") + type;
    return text;
}

}  // namespace

void find_messages(const LintLoaded& loaded, const Computation& c, Findings& into) {
    for (Index e = 0; e < c.size(); ++e) {
        const Event& event = c.event(e);
        const Index partner = c.partner(e);
        const Spot here{c.process_of(e), c.id(e).position, event.place};
        if (event.kind == Kind::send && partner == none && loaded.trace.ended(event.peer))
            into.add(Fault::unreceived, {here}, [&] {
                return fmt::format("{}: rank {} ends without receiving its message{}", into.text(here),
                                   event.peer, event.tag != 0 ? fmt::format(", tag {}", event.tag) : "");
            });
        if (event.kind != Kind::receive || partner == none) continue;
        const Event& sent = c.event(partner);
        const Spot there{c.process_of(partner), c.id(partner).position, sent.place};
        if (sent.bytes == unknown_bytes || event.bytes == unknown_bytes) continue;
        if (sent.bytes > event.bytes)
            into.add(Fault::truncated, {here, there}, [&] {
                return fmt::format("{} has room for {}, and gets {} from {}", into.text(here),
                                   size_text(loaded, event), size_text(loaded, sent), into.text(there));
            });
        const auto& types = loaded.trace.types();
        if (sent.bytes != 0 && !types_fit(types[sent.type], types[event.type]))
            into.add(Fault::type, {here, there}, [&] {
                return fmt::format("{} receives as {} what {} sends as {}", into.text(here),
                                   types[event.type], into.text(there), types[sent.type]);
            });
    }
}

}  // namespace cairn::causality
