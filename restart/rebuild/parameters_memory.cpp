// What the restorer maps, and with which pages it fills it.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/lazy_memory.h"
#include "resources/io_uring/schema_ring.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {
namespace {

// Whether pages are to be read into it. Of memory that was born with the process those that it has borrowed
// of its parent are there; its own come from its image, and from the images of earlier generations.
bool is_filled(const schema::Area& area, bool inherited, ProgramId own) {
    if (!area.pages.empty() || (area.huge_pages && !area.huge_pages->present.empty())) return true;
    return area.borrowed && (!inherited || std::ranges::any_of(*area.borrowed, [own](const auto& part) {
               return part.from == own;
           }));
}

std::uint32_t area_flags(const schema::Area& area, bool inherited, ProgramId own) {
    using schema::AreaKind;
    const bool shared = area.kind == AreaKind::file_shared || area.kind == AreaKind::shared_memory ||
                        area.kind == AreaKind::region;
    const std::pair<bool, std::uint32_t> all[] = {
        {shared, restorer::area_shared},
        {area.grows_down, restorer::area_grows_down},
        {area.no_reserve, restorer::area_no_reserve},
        {area.locked, restorer::area_locked},
        {area.lock_on_fault, restorer::area_lock_on_fault},
        {area.dont_fork, restorer::area_dont_fork},
        {area.wipe_on_fork, restorer::area_wipe_on_fork},
        {area.dont_dump, restorer::area_dont_dump},
        {area.huge, restorer::area_huge},
        {area.no_huge, restorer::area_no_huge},
        {area.mergeable, restorer::area_mergeable},
        {area.droppable, restorer::area_droppable},
        {area.never_writable.value_or(false), restorer::area_never_writable},
        {area.random.value_or(false), restorer::area_random},
        {area.sequential.value_or(false), restorer::area_sequential},
        {is_filled(area, inherited, own), restorer::area_filled},
        {inherited, restorer::area_inherited},
    };
    std::uint32_t flags = 0;
    for (const auto& [set, flag] : all) flags |= set ? flag : 0;
    return flags;
}

// What is free when the areas are about to be mapped: everything but the restorer itself, the kernel's
// special mappings and the rings' own places.
std::vector<restorer::Span> free_for_rings(const schema::Process& process, const Placement& placement,
                                           const std::vector<restorer::Move>& special) {
    constexpr std::uint64_t lowest = 0x10000, highest = 0x7ffffffff000;  // vm.mmap_min_addr, TASK_SIZE
    std::vector<restorer::Span> used = {{placement.base.value(), placement.size}, {highest, 0}};
    for (const auto& move : special) used.push_back({move.to, move.length});
    for (const auto& area : process.areas)
        if (is_of_a_ring(area)) used.push_back({area.start.value(), area.end - area.start});
    std::ranges::sort(used, {}, &restorer::Span::start);
    std::vector<restorer::Span> free;
    std::uint64_t end = lowest;
    for (const auto& [start, length] : used) {
        if (start > end) free.push_back({end, start - end});
        end = std::max(end, start + length);
    }
    return free;
}

// What the program calls its own memory stands in /proc/PID/maps as [anon:NAME].
void add_names(ParameterBlock& block, const schema::Process& process) {
    constexpr std::string_view begin = "[anon:";
    std::vector<restorer::AreaName> names;
    for (const auto& area : process.areas) {
        if (area.kind != schema::AreaKind::anonymous || !area.name.starts_with(begin)) continue;
        const auto text = area.name.substr(begin.size(), area.name.size() - begin.size() - 1);
        names.push_back({area.start.value(), area.end - area.start, block.add(text).value()});
    }
    block.add(names, &restorer::Params::names, &restorer::Params::name_count);
}

}  // namespace

bool is_of_a_ring(const schema::Area& area) {
    return area.kind == schema::AreaKind::file_shared && area.name == ring_name;
}

void add_areas(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited,
               const Placement& placement, const std::vector<restorer::Move>& special) {
    const schema::Process& process = *rebuilding.process;
    std::vector<restorer::Area> areas;
    std::map<std::int64_t, ProgramAddress> paths;
    for (const auto& area : process.areas) {
        if (is_special(area)) continue;
        const bool kept =
            std::ranges::binary_search(rebuilding.memory.inherited, ProgramRange{area.start, area.end});
        restorer::Area out = {area.start.value(),
                              area.end.value(),
                              area.prot,
                              area_flags(area, kept, process.pid),
                              -1,
                              0,
                              0,
                              area.file_offset,
                              -1,
                              area.memory_policy,
                              area.memory_policy == 0 ? 0 : block.add(area.memory_nodes).value(),
                              area.memory_nodes.size() * 8 + 1,
                              area.huge_pages ? area.huge_pages->size_log2 : 0,
                              0};
        if (kept) {
            areas.push_back(out);
            continue;
        }
        if (const int segment = inherited.system_v.segment(area.object); segment >= 0) {
            out.segment = segment;
            out.flags |= restorer::area_segment;
            if (inherited.system_v.is_in_own(area.object)) out.flags |= restorer::area_in_own_ipc;
        } else if (area.kind == schema::AreaKind::region) {
            out.fd = inherited.region_fd;
        } else if (area.kind != schema::AreaKind::anonymous) {
            out.fd = inherited.objects.place_of(process, area.object);
            if (is_of_a_ring(area)) out.flags |= restorer::area_of_a_ring;
            if (out.fd < 0) {
                auto& at = paths[area.object];
                if (!at.known()) at = block.add(inherited.path_of(area.object));
                out.path = at.value();
            }
        }
        areas.push_back(out);
    }
    using restorer::Params;
    if (std::ranges::any_of(process.areas, is_of_a_ring))
        block.add(free_for_rings(process, placement, special), &Params::free, &Params::free_count);
    const MemoryPlan& memory = rebuilding.memory;
    block.add(areas, &Params::areas, &Params::area_count);
    block.add(memory.runs, &Params::runs, &Params::run_count);
    block.add(memory.units, &Params::units, &Params::unit_count);
    block.add(memory.watched, &Params::watched, &Params::watched_count);
    block.add(memory.populated, &Params::populated, &Params::populated_count);
    add_names(block, process);
    block.add(memory.guards, &Params::guards, &Params::guard_count);
    block.add(memory.lazy_areas, &Params::lazy, &Params::lazy_count);
    std::vector<restorer::OtherImage> others;
    for (const auto& other : memory.others)
        others.push_back({block.add(rebuilding.folder + "/" + other).value(), -1, 0});
    block.add(others, &Params::others, &Params::other_count);
    block.add(memory.drops, &Params::drops, &Params::drop_count);
    auto& params = block.params();
    params.lazy_features = lazy_memory_features;
    params.filled_by_tool = memory.written_runs.empty() ? 0 : 1;
    params.readers = memory.readers;
    params.wide_hash = __builtin_cpu_supports("avx2") != 0 ? 1 : 0;
    params.image_fd = inherited.image_fd;
}

}  // namespace cairn::restart
