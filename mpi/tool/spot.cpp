#include "mpi/tool/spot.h"

#include <algorithm>
#include <vector>

namespace cairn::mpi::tool {
namespace {

using causality::Computation;
using causality::Place;

bool is_number(const std::string& text) {
    return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string line_of(const Place& place) {
    return place.file.empty() ? "" : fmt::format("{}:{}", place.file, place.line);
}

bool is_spelled(const Place& place, const std::string& name) {
    return name == place.function || name == place.call || name == line_of(place) ||
           name == causality::describe(place) || name == fmt::format("{}@{}", place.function, line_of(place));
}

bool is_called_for_short(const Place& place, const std::string& name) {
    return (!place.function.empty() && short_name(place.function) == name) ||
           (!place.file.empty() && name.ends_with("/" + line_of(place)));
}

std::size_t distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t before = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, before + (a[i - 1] == b[j - 1] ? 0 : 1)});
            before = above;
        }
    }
    return row[b.size()];
}

// What this process calls, and from where, as it may be asked for.
std::string suggestions(const Computation& c, const std::set<std::uint32_t>& used, const std::string& name) {
    std::set<std::string> all;
    for (const std::uint32_t id : used) {
        const Place& place = c.places()[id];
        for (const std::string& each : {place.function, place.call, line_of(place)})
            if (!each.empty() && each.size() < 200) all.insert(each);
    }
    std::vector<std::pair<std::size_t, std::string>> near;
    for (const std::string& each : all) {
        const std::string plain = short_name(each);
        const bool within = name.size() > 2 &&
                            (each.find(name) != std::string::npos || name.find(plain) != std::string::npos);
        const std::size_t far = within ? 0 : std::min(distance(each, name), distance(plain, name));
        if (far * 2 <= std::max<std::size_t>(name.size(), 2)) near.emplace_back(far, each);
    }
    std::sort(near.begin(), near.end());
    const bool none_near = near.empty();
    if (none_near)
        for (const std::string& each : all) near.emplace_back(0, each);
    constexpr std::size_t most = 6;
    std::string text;
    for (std::size_t i = 0; i < std::min(near.size(), most); ++i)
        text += (i > 0 ? ", " : "") + near[i].second;
    if (near.size() > most) text += ", ...";
    return text.empty() ? "" : (none_near ? "; it has " : "; did you mean ") + text + (none_near ? "" : "?");
}

}  // namespace

std::string short_name(const std::string& function) {
    // Template arguments and parameters, from the outermost bracket on; operators have some in their names.
    std::string name = function;
    const std::size_t operators = name.find("operator");
    if (operators != std::string::npos) return name;
    if (const std::size_t bracket = name.find_first_of("<("); bracket != std::string::npos && bracket > 0) {
        // `ns::Grid<int>::step`: what is behind the brackets is the name.
        int depth = 0;
        std::string outside;
        for (const char each : name) {
            if (each == '<') ++depth;
            if (each == '(' && depth == 0) break;
            if (depth == 0) outside += each;
            if (each == '>') --depth;
        }
        name = outside;
    }
    const std::size_t colons = name.rfind("::");
    return colons != std::string::npos ? name.substr(colons + 2) : name;
}

Result<Spot> read_spot(const std::string& at, const Computation& c, causality::Process rank) {
    Spot spot;
    spot.name = at;
    if (is_number(at)) {
        spot.event = std::strtoull(at.c_str(), nullptr, 10);
        if (spot.event == 0) return fail_code(ExitCode::usage, "--at 0: calls are counted from 1");
        return spot;
    }
    std::set<std::uint32_t> used;
    for (causality::Position i = 0; i < c.size(rank); ++i) used.insert(c.event(c.first(rank) + i).place);
    const auto look = [&](const auto& fits) {
        // With a count behind it, or without: a name may end in a number.
        const std::size_t colon = at.rfind(':');
        for (const bool counted : {false, true}) {
            if (counted && (colon == std::string::npos || colon == 0 || !is_number(at.substr(colon + 1))))
                break;
            spot.name = counted ? at.substr(0, colon) : at;
            for (const std::uint32_t id : used)
                if (fits(c.places()[id], spot.name)) spot.places.insert(id);
            if (spot.places.empty()) continue;
            spot.counted = counted;
            if (counted) spot.count = std::strtoull(at.c_str() + colon + 1, nullptr, 10);
            return true;
        }
        return false;
    };
    if (!look(is_spelled) && !look(is_called_for_short)) {
        const std::size_t colon = at.rfind(':');
        const bool number = colon != std::string::npos && is_number(at.substr(colon + 1));
        const std::string name = number && at.find('.') == std::string::npos ? at.substr(0, colon) : at;
        return fail_code(ExitCode::refused, "rank {} has no event {} in this record{}", rank, at,
                         suggestions(c, used, name));
    }
    if (spot.count == 0) return fail_code(ExitCode::usage, "--at {}: passes are counted from 1", at);
    std::set<std::string> functions;
    for (const std::uint32_t id : spot.places) functions.insert(c.places()[id].function);
    const auto& first = c.places()[*spot.places.begin()];
    if (functions.size() > 1 && short_name(first.function) == spot.name && !is_spelled(first, spot.name))
        return fail_code(ExitCode::refused, "--at {}: which of {}?", at, fmt::join(functions, ", "));
    return spot;
}

}  // namespace cairn::mpi::tool
