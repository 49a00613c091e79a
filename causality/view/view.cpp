#include "causality/view/view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "causality/pattern.h"
#include "causality/places.h"

namespace cairn::causality {
namespace {

constexpr const char* page =
#include "view_page.inc"
    ;

using nlohmann::json;

// Where an event stands across: steps of a walk in which causes come first, so that messages go to the right
// and what is concurrent may share a column.
std::vector<std::uint32_t> columns(const Computation& c) {
    std::vector<std::uint32_t> column(c.size(), 0);
    std::vector<std::uint32_t> operation(c.groups().size(), 0);
    for (const Index e : c.order()) {
        std::uint32_t at = c.id(e).position == 0 ? 1 : column[e - 1] + 1;
        if (c.event(e).kind == Kind::receive) at = std::max(at, column[c.partner(e)] + 1);
        if (c.event(e).kind == Kind::collective) {
            // Whole ones stand in one column.
            std::uint32_t& together = operation[c.group_number(e)];
            if (together == 0 && c.group(e).shape == Shape::all)
                for (const Index member : c.group(e).members)
                    together = std::max(together, c.id(member).position == 0 ? 1 : column[member - 1] + 1);
            at = std::max(at, together);
            together = std::max(together, at);
        }
        column[e] = at;
    }
    return column;
}

// A cut by events, as it is drawn.
json cut_json(const Cut& cut) {
    return cut;
}

// Microseconds are enough for the eye.
std::int64_t since(std::int64_t begin, std::int64_t time) {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(begin)) /
                                     1000);
}

// The events and what connects them.
json drawn_events(const Computation& c, const ViewOptions& options) {
    json data;
    json first = json::array();
    for (Process p = 0; p <= c.processes(); ++p) first.push_back(p == c.processes() ? c.size() : c.first(p));
    data["first"] = std::move(first);
    std::vector<std::uint32_t> kind, flags, partner, place;
    std::vector<std::int64_t> across, took;
    const std::vector<std::uint32_t> column = options.by_time ? std::vector<std::uint32_t>() : columns(c);
    std::int64_t begin = INT64_MAX;
    for (Index e = 0; e < c.size(); ++e) begin = std::min(begin, c.event(e).call_begin());
    for (Index e = 0; e < c.size(); ++e) {
        const Event& event = c.event(e);
        kind.push_back(static_cast<std::uint32_t>(event.kind) + 8 * static_cast<std::uint32_t>(event.shape));
        flags.push_back(event.flags);
        // -1 is shorter than 4294967295
        partner.push_back(event.kind == Kind::collective ? c.group_number(e) : c.partner(e));
        place.push_back(event.place);
        across.push_back(options.by_time ? since(begin, event.time) : std::int64_t{column[e]});
        if (options.by_time)
            took.push_back(since(begin, event.call_end()) - since(begin, event.call_begin()));
    }
    data["kind"] = kind;
    data["flags"] = flags;
    json links = json::array();
    for (const std::uint32_t each : partner)
        links.push_back(each == none ? std::int64_t{-1} : std::int64_t{each});
    data["link"] = std::move(links);
    data["place"] = place;
    data["x"] = across;
    data["byTime"] = options.by_time;
    data["took"] = took;
    json tags = json::object();
    for (Index e = 0; e < c.size(); ++e)
        if (c.event(e).tag != 0) tags[std::to_string(e)] = c.event(e).tag;
    data["tag"] = std::move(tags);
    json places = json::array();
    for (const Place& each : c.places()) places.push_back(describe(each));
    data["places"] = std::move(places);
    json groups = json::array();
    for (const Group& group : c.groups())
        groups.push_back({{"members", group.members},
                          {"root", group.root == none ? -1 : std::int64_t{group.root}},
                          {"whole", group.whole}});
    data["groups"] = std::move(groups);
    return data;
}

// What the pattern says: Z-cycles with their messages, and the recovery line.
void draw_pattern(const Computation& c, const ViewOptions& options, json& data) {
    std::vector<Index> events;
    const Pattern pattern = pattern_of(c, &events);
    const Zigzag graph(pattern);
    std::vector<std::vector<Index>> checkpoint_event(c.processes());
    std::vector<Index> sender(pattern.messages(), none);
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Pattern::Step& step = pattern.steps()[i];
        if (step.what() == Pattern::What::send)
            sender[step.message] = events[i];
        else if (step.what() != Pattern::What::receive)
            checkpoint_event[step.process()].push_back(events[i]);
    }
    json cycles = json::array();
    const std::vector<Checkpoint> useless = graph.useless();
    constexpr std::size_t most_paths = 200;  // each takes a search
    for (std::size_t i = 0; i < useless.size(); ++i) {
        json messages = json::array();
        if (i < most_paths)
            for (const std::uint32_t m : graph.path(useless[i], useless[i]))
                if (sender[m] != none) messages.push_back(sender[m]);
        cycles.push_back({{"checkpoint", checkpoint_event[useless[i].process][useless[i].number - 1]},
                          {"messages", std::move(messages)}});
    }
    data["cycles"] = std::move(cycles);
    if (!options.failed.empty()) {
        const auto line = graph.recovery_line(options.failed);
        Cut cut(c.processes());
        for (Process p = 0; p < c.processes(); ++p) {
            const std::uint32_t number = line.line[p];
            if (number == pattern.intervals(p))
                cut[p] = c.size(p);
            else if (number > 0)
                cut[p] = c.id(checkpoint_event[p][number - 1]).position + 1;
        }
        data["recovery"] = {{"failed", options.failed}, {"cut", cut_json(cut)}, {"undone", line.undone}};
    }
}

}  // namespace

std::string view_html(const Computation& c, const ViewOptions& options) {
    json data = drawn_events(c, options);
    data["title"] = options.title;
    data["processes"] = c.processes();
    data["base"] = options.base.empty() ? std::vector<Position>(c.processes(), 0) : options.base;
    data["byCall"] = options.by_call;
    draw_pattern(c, options, data);
    json drawn = json::array();
    if (options.places > 0)
        for (const auto& each : Places(c).best(options.places, 0))
            drawn.push_back({{"cut", cut_json(each.cut)}, {"wait", each.wait}});
    data["placeCuts"] = std::move(drawn);

    // "</" would end the script in which the data lies.
    std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
    std::string safe;
    safe.reserve(text.size());
    for (const char letter : text) {
        if (letter == '<')
            safe += "\\u003c";
        else
            safe += letter;
    }
    std::string html = page;
    const std::string_view mark = "\"CAIRN_DATA\"";
    html.replace(html.find(mark), mark.size(), safe);
    if (!options.more.empty()) html.insert(html.rfind("</body>"), options.more);
    return html;
}

}  // namespace cairn::causality
