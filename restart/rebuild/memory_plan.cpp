#include "restart/rebuild/memory_plan.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "common/schema/image_name.h"

namespace cairn::restart {
namespace {

using restorer::huge_page;

// A userfaultfd costs two calls for an area, and splits it from its neighbours meanwhile: for large ones
// only.
constexpr std::uint64_t worth_watching = std::uint64_t{1} << 20;
// What another reader is worth.
constexpr std::uint64_t bytes_per_reader = std::uint64_t{8} << 20;
constexpr std::uint32_t runs_per_unit = 64;

std::uint64_t filled(const schema::Area& area) {
    std::uint64_t bytes = 0;
    for (const auto& run : area.pages) bytes += run.length;
    if (area.borrowed)
        for (const auto& part : *area.borrowed)
            for (const auto& run : part.pages) bytes += run.length;
    return bytes;
}

// How many of the runs from `first` on are exactly one aligned huge page; 0: they are not.
std::uint32_t huge_page_at(const std::vector<schema::PageRun>& runs, std::size_t first) {
    const auto start = runs[first].at;
    if (start % huge_page != 0) return 0;
    auto end = start;
    for (auto i = first; i < runs.size() && runs[i].at == end && end < start + huge_page; ++i) {
        end += runs[i].length;
        if (end == start + huge_page) return static_cast<std::uint32_t>(i - first + 1);
    }
    return 0;
}

// Pages that another process has as well, who may be a parent that hands them on.
bool is_shared_by_fork(const schema::Area& area, ProgramId own) {
    return area.borrowed && std::ranges::any_of(*area.borrowed, [own](const schema::Borrowed& part) {
               return part.from != own;
           });
}

// Others are small, or have to be there: locked memory is, a stack grows, a child of a fork would find zeros.
bool can_be_lazy(const schema::Area& area, ProgramId own) {
    return area.kind == schema::AreaKind::anonymous && !area.huge_pages && !area.locked && !area.grows_down &&
           !area.wipe_on_fork && area.guards.empty() && !is_shared_by_fork(area, own) &&
           filled(area) >= worth_watching;
}

// How the pages of an area come.
struct Manner {
    bool watched = false;
    HugePages huge = HugePages::none;
    std::uint32_t image = 0;  // restorer::Unit::image
};

void add_units(const std::vector<schema::PageRun>& runs, const Manner& how, MemoryPlan& plan) {
    const bool may_be_huge = how.watched && how.huge != HugePages::none;
    const auto base = plan.runs.size();
    for (const auto& run : runs) plan.runs.push_back({run.at.value(), run.length, run.offset, run.hash});
    for (std::size_t i = 0; i < runs.size();) {
        restorer::Unit unit = {base + i, 0, how.watched ? restorer::unit_copied : restorer::unit_in_place,
                               how.image, 0};
        const auto whole = may_be_huge ? huge_page_at(runs, i) : 0;
        if (whole != 0) {
            unit.kind = how.huge == HugePages::wanted ? restorer::unit_huge : restorer::unit_either;
            unit.run_count = whole;
        } else {
            std::uint64_t bytes = 0;
            for (auto k = i; k < runs.size() && unit.run_count < runs_per_unit; ++k) {
                bytes += runs[k].length;
                if (unit.run_count > 0 && bytes > restorer::unit_buffer) break;
                if (unit.run_count > 0 && may_be_huge && huge_page_at(runs, k) != 0) break;
                ++unit.run_count;
            }
        }
        plan.units.push_back(unit);
        i += unit.run_count;
    }
}

// From 1 on.
std::uint32_t number_of(const schema::Borrowed& part, MemoryPlan& plan) {
    auto name = schema::image_name(part);
    auto found = std::ranges::find(plan.others, name);
    if (found == plan.others.end()) found = plan.others.insert(found, std::move(name));
    return static_cast<std::uint32_t>(found - plan.others.begin() + 1);
}

void add_lazy(const std::vector<schema::PageRun>& runs, std::uint32_t image, MemoryPlan& plan) {
    for (const auto& run : runs)
        plan.lazy_runs.push_back({{run.at.value(), run.length, run.offset, run.hash}, image});
}

// What is there by birth is changed in place.
std::uint64_t add_inherited(const InheritedArea& inherited, ProgramId own, MemoryPlan& plan) {
    const auto& area = *inherited.area;
    plan.inherited.push_back({area.start, area.end});
    for (const auto& drop : inherited.drops) plan.drops.push_back({drop.start.value(), drop.length()});
    add_units(area.pages, {}, plan);
    std::uint64_t bytes = 0;
    for (const auto& run : area.pages) bytes += run.length;
    for (const auto& part : *area.borrowed) {
        if (part.from != own) continue;
        add_units(part.pages, {false, HugePages::none, number_of(part, plan)}, plan);
        for (const auto& run : part.pages) bytes += run.length;
    }
    return bytes;
}

// What /sys/kernel/mm/transparent_hugepage says.
HugePages huge_pages_here() {
    const auto chosen = [](const char* name) {
        std::ifstream file(std::string("/sys/kernel/mm/transparent_hugepage/") + name);
        std::string line;
        std::getline(file, line);
        const auto begin = line.find('['), end = line.find(']');
        return begin < end && end != std::string::npos ? line.substr(begin + 1, end - begin - 1) : "";
    };
    // Linux 6.8 has a file for each size, of which 2 MiB inherits from the first unless told otherwise.
    auto word = chosen("hugepages-2048kB/enabled");
    if (word.empty() || word == "inherit") word = chosen("enabled");
    if (word == "always") return HugePages::wanted;
    return word == "madvise" ? HugePages::either : HugePages::none;
}

// Who asked for them, or has them on this machine without asking, is as fast afterwards as before. Others had
// small pages.
HugePages huge_pages_of(const schema::Process& process, const schema::Area& area,
                        const MemoryWishes& wishes) {
    if (area.no_huge || process.thp_disable) return HugePages::none;
    return wishes.huge_pages == HugePages::either && area.huge ? HugePages::wanted : wishes.huge_pages;
}

}  // namespace

MemoryPlan plan_memory(const schema::Process& process, const MemoryWishes& wishes,
                       const std::vector<InheritedArea>& inherited) {
    MemoryPlan plan;
    std::uint64_t bytes = 0;
    for (const auto& area : process.areas) {
        for (const auto& [start, length] : area.guards) plan.guards.push_back({start.value(), length});
        if (area.huge_pages)
            for (const auto& [start, length] : area.huge_pages->present)
                plan.populated.push_back({start.value(), length});
        const auto size = filled(area);
        if (size == 0 || area.kind == schema::AreaKind::vdso) continue;  // the running kernel's has the same
        const auto kept = std::ranges::find(inherited, &area, &InheritedArea::area);
        if (kept != inherited.end()) {
            bytes += add_inherited(*kept, process.pid, plan);
            continue;
        }
        if (wishes.lazy && can_be_lazy(area, process.pid)) {
            plan.lazy_areas.push_back({area.start.value(), area.end - area.start});
            add_lazy(area.pages, 0, plan);
            for (const auto& part : area.borrowed.value_or(std::vector<schema::Borrowed>()))
                add_lazy(part.pages, number_of(part, plan), plan);
            continue;
        }
        bytes += size;
        const bool watched =
            area.kind == schema::AreaKind::anonymous && !area.huge_pages && size >= worth_watching;
        if (watched) plan.watched.push_back({area.start.value(), area.end - area.start});
        const auto huge = huge_pages_of(process, area, wishes);
        add_units(area.pages, {watched, huge}, plan);
        if (!area.borrowed) continue;
        for (const auto& part : *area.borrowed)
            add_units(part.pages, {watched, huge, number_of(part, plan)}, plan);
    }
    const auto useful = std::min<std::uint64_t>(1 + bytes / bytes_per_reader, restorer::max_readers);
    plan.readers = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wishes.processors, 1, useful));
    return plan;
}

void leave_to_tool(const std::vector<PageData>& images, MemoryPlan& plan) {
    if (std::ranges::none_of(images, [](const PageData& image) { return image.chunks != nullptr; })) return;
    std::vector<restorer::Run> runs;
    std::vector<restorer::Unit> units;
    for (auto unit : plan.units) {
        const auto its = std::span(plan.runs).subspan(unit.first_run, unit.run_count);
        if (images[unit.image].chunks) {
            for (const auto& run : its) plan.written_runs.push_back({run, unit.image});
            continue;
        }
        unit.first_run = runs.size();
        runs.insert(runs.end(), its.begin(), its.end());
        units.push_back(unit);
    }
    plan.runs = std::move(runs);
    plan.units = std::move(units);
    plan.writers = plan.readers;
    if (plan.units.empty()) plan.readers = 1;
}

std::uint64_t lazy_bytes(const schema::Process& process) {
    std::uint64_t bytes = 0;
    for (const auto& area : process.areas)
        if (can_be_lazy(area, process.pid)) bytes += filled(area);
    return bytes;
}

MemoryWishes memory_wishes_here(bool lazy) {
    cpu_set_t processors;
    const bool known = ::sched_getaffinity(0, sizeof processors, &processors) == 0;
    return {huge_pages_here(), known ? static_cast<unsigned>(CPU_COUNT(&processors)) : 1, lazy};
}

}  // namespace cairn::restart
