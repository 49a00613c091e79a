// What the restorer maps, and with which pages it fills it.
#include <map>

#include "common/lazy_memory.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {
namespace {

std::uint32_t area_flags(const schema::Area& area) {
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
        {!area.pages.empty(), restorer::area_filled},
    };
    std::uint32_t flags = 0;
    for (const auto& [set, flag] : all) flags |= set ? flag : 0;
    return flags;
}

}  // namespace

void add_areas(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited) {
    const schema::Process& process = *rebuilding.process;
    std::vector<restorer::Area> areas;
    std::map<std::int64_t, ProgramAddress> paths;
    for (const auto& area : process.areas) {
        if (is_special(area)) continue;
        restorer::Area out = {area.start.value(),
                              area.end.value(),
                              area.prot,
                              area_flags(area),
                              -1,
                              0,
                              0,
                              area.file_offset,
                              -1,
                              area.memory_policy,
                              area.memory_policy == 0 ? 0 : block.add(area.memory_nodes).value(),
                              area.memory_nodes.size() * 8 + 1};
        if (const int segment = inherited.system_v.segment(area.object); segment >= 0) {
            out.segment = segment;
            out.flags |= restorer::area_segment;
        } else if (area.kind == schema::AreaKind::region) {
            out.fd = inherited.region_fd;
        } else if (area.kind != schema::AreaKind::anonymous) {
            out.fd = inherited.objects.place_of(process, area.object);
            if (out.fd < 0) {
                auto& at = paths[area.object];
                if (!at.known()) at = block.add(inherited.path_of(area.object));
                out.path = at.value();
            }
        }
        areas.push_back(out);
    }
    using restorer::Params;
    const MemoryPlan& memory = rebuilding.memory;
    block.add(areas, &Params::areas, &Params::area_count);
    block.add(memory.runs, &Params::runs, &Params::run_count);
    block.add(memory.units, &Params::units, &Params::unit_count);
    block.add(memory.watched, &Params::watched, &Params::watched_count);
    block.add(memory.guards, &Params::guards, &Params::guard_count);
    block.add(memory.lazy_areas, &Params::lazy, &Params::lazy_count);
    auto& params = block.params();
    params.lazy_features = lazy_memory_features;
    params.readers = memory.readers;
    params.wide_hash = __builtin_cpu_supports("avx2") != 0 ? 1 : 0;
    params.image_fd = inherited.image_fd;
}

}  // namespace cairn::restart
