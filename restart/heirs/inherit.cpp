#include "restart/heirs/inherit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/schema/areas.h"

namespace cairn::restart {
namespace {

bool can_be_inherited(const schema::Area& area) {
    using schema::AreaKind;
    return (area.kind == AreaKind::anonymous || area.kind == AreaKind::file_private) && !area.grows_down &&
           !area.locked && !area.dont_fork && !area.wipe_on_fork && !area.droppable && !area.huge_pages &&
           area.guards.empty();
}

bool same_mapping(const schema::Area& heir, const schema::Area& parent) {
    const auto key = [](const schema::Area& area) {
        return std::tuple(area.prot, area.no_reserve, area.dont_dump, area.huge, area.no_huge, area.mergeable,
                          area.random.value_or(false), area.sequential.value_or(false), area.memory_policy);
    };
    return key(heir) == key(parent) && schema::same_backing(heir, parent) && heir.name == parent.name &&
           heir.memory_nodes == parent.memory_nodes && can_be_inherited(heir) && can_be_inherited(parent);
}

struct Place {
    ProgramId from;
    std::optional<std::string> file;  // schema::Borrowed::file
    schema::PageRun run;
};

// All pages of an area, by address, whoever's image has them.
std::vector<Place> places_of(const schema::Area& area, ProgramId own) {
    std::vector<Place> places;
    for (const auto& run : area.pages) places.push_back({own, {}, run});
    if (area.borrowed)
        for (const auto& part : *area.borrowed)
            for (const auto& run : part.pages) places.push_back({part.from, part.file, run});
    std::ranges::sort(places, {}, [](const Place& place) { return place.run.at; });
    return places;
}

// Whether the parent has the very same bytes there, by what the images say.
bool is_theirs(const std::vector<Place>& theirs, const schema::Borrowed& part, const schema::PageRun& run) {
    auto next = std::ranges::upper_bound(theirs, run.at, {}, [](const Place& place) { return place.run.at; });
    if (next == theirs.begin()) return false;
    const auto& [owner, file, whole] = *std::prev(next);
    return owner == part.from && file == part.file && run.at + run.length <= whole.at + whole.length &&
           run.offset == whole.offset + (run.at - whole.at);
}

// What of the area they take.
std::vector<ProgramRange> ranges_of(const std::vector<Place>& places, const schema::Area& area) {
    std::vector<ProgramRange> ranges;
    for (const auto& place : places) {
        const auto start = std::max(place.run.at, area.start);
        const auto end = std::min(place.run.at + place.run.length, area.end);
        if (end <= start) continue;
        if (!ranges.empty() && ranges.back().end == start)
            ranges.back().end = end;
        else
            ranges.push_back({start, end});
    }
    return ranges;
}

// Both in order, each without overlaps.
std::vector<ProgramRange> without(const std::vector<ProgramRange>& all,
                                  const std::vector<ProgramRange>& taken) {
    std::vector<ProgramRange> left;
    auto other = taken.begin();
    for (auto range : all) {
        while (other != taken.end() && other->end <= range.start) ++other;
        for (auto each = other; each != taken.end() && each->start < range.end; ++each) {
            if (range.start < each->start) left.push_back({range.start, each->start});
            range.start = std::min(range.end, each->end);
        }
        if (range.start < range.end) left.push_back(range);
    }
    return left;
}

std::optional<InheritedArea> inherit(const schema::Process& heir, const schema::Area& area,
                                     const schema::Process& parent, const schema::Area& other) {
    if (!same_mapping(area, other)) return {};
    const auto theirs = places_of(other, parent.pid);
    for (const auto& part : *area.borrowed)
        for (const auto& run : part.pages)
            if (part.from != heir.pid && !is_theirs(theirs, part, run)) return {};
    return InheritedArea{&area, without(ranges_of(theirs, area), ranges_of(places_of(area, heir.pid), area))};
}

}  // namespace

std::vector<InheritedArea> inherited_areas(const schema::Process& heir, const schema::Process& parent) {
    std::vector<InheritedArea> all;
    for (const auto& area : heir.areas) {
        if (!area.borrowed) continue;
        const auto* other = schema::area_around(parent.areas, area.start, area.end);
        if (other == nullptr) continue;
        if (auto kept = inherit(heir, area, parent, *other)) all.push_back(std::move(*kept));
    }
    return all;
}

}  // namespace cairn::restart
