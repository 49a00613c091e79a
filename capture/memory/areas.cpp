#include "capture/memory/areas.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <bit>

#include "common/each_in_parallel.h"
#include "resources/io_uring/schema_ring.h"

namespace cairn::capture {
namespace {

bool has_flag(const proc::MapLine& line, std::string_view flag) {
    for (std::size_t at = line.flags.find(flag); at != std::string::npos; at = line.flags.find(flag, at + 1))
        if (at % 3 == 1 || at == 0) return true;  // two letters and a blank each, a blank in front
    return false;
}

bool is_shared(const schema::Area& area) {
    using schema::AreaKind;
    return area.kind == AreaKind::file_shared || area.kind == AreaKind::shared_memory ||
           area.kind == AreaKind::region;
}

bool has_file(const proc::MapLine& line) {
    return line.inode != 0 || line.major != 0 || line.minor != 0;
}

// MAP_ANONYMOUS|MAP_HUGETLB: a file of the kernel's, which no path leads to.
bool is_anonymous_huge(const StillMap& map, const proc::MapLine& line) {
    return line.deleted && line.name == "/anon_hugepage" && map.huge.contains(line.start);
}

Mapping mapping_of(const StillMap& map, const proc::MapLine& line) {
    Mapping mapping = capture::mapping_of(line);
    mapping.writable = (line.prot & 2) != 0 || has_flag(line, "mw");
    const auto huge = map.huge.find(line.start);
    if (huge != map.huge.end()) mapping.huge_page = huge->second;
    return mapping;
}

bool is_region(const StoppedProcess& process, const std::vector<proc::MapLine>& lines,
               const proc::MapLine& line) {
    const auto region = std::ranges::lower_bound(lines, process.region_at, {}, &proc::MapLine::start);
    return region != lines.end() && region->start == process.region_at && line.shared &&
           line.inode == region->inode && line.major == region->major && line.minor == region->minor;
}

Result<> refuse_ring(const StoppedProcess& process, const proc::MapLine& line) {
    // The ring of io_setup(2), which the kernel knows by its address (fs/aio.c, aio_setup_ring()).
    if (line.shared && line.name.starts_with("/[aio]"))
        return fail_code(
            ExitCode::refused,
            "{}: has a context of Linux AIO (io_setup(2)), which can't be saved: tell the program to do "
            "without (MariaDB: --innodb-use-native-aio=0)",
            proc::label(process.pid));
    return {};
}

Result<> refuse_device(const StoppedProcess& process, const schema::Area& area, const proc::MapLine& line) {
    if (proc::is_kernels_mapping(area.name) || area.name == ring_name ||
        (!has_flag(line, "io") && !has_flag(line, "pf")))
        return {};
    return fail_code(ExitCode::refused,
                     "{}: memory {:#x}-{:#x} {} is a device's memory, which can't be saved",
                     proc::label(process.pid), area.start, area.end, area.name);
}

schema::AreaKind kind_of(const StoppedProcess& process, const StillMap& map, const proc::MapLine& line) {
    using schema::AreaKind;
    if (line.name == "[vdso]") return AreaKind::vdso;
    if (proc::is_kernels_mapping(line.name)) return AreaKind::vvar;
    if (is_region(process, map.lines, line)) return AreaKind::region;
    if (!line.shared)
        return has_file(line) && !is_anonymous_huge(map, line) ? AreaKind::file_private : AreaKind::anonymous;
    return !map.own_files.contains(line.start) && ObjectTable::is_shared_memory(mapping_of(map, line))
               ? AreaKind::shared_memory
               : AreaKind::file_shared;
}

// Of memfds, System V segments and shared anonymous memory.
dev_t device_of_shared_memory() {
    static const dev_t device = [] {
        const Fd memory(::memfd_create("cairn", MFD_CLOEXEC));
        struct stat status {};
        return memory && ::fstat(memory.get(), &status) == 0 ? status.st_dev : dev_t{0};
    }();
    return device;
}

// The last of those that begin at or before `address`, which are in the order of their starts; the end: none.
template <class Lines, class Start>
auto begins_before(const Lines& lines, ProgramAddress address, Start start) {
    const auto behind = std::ranges::upper_bound(lines, address, {}, start);
    return behind == lines.begin() ? lines.end() : std::prev(behind);
}

// What only smaps tells, which walks all page tables: asked where there is something to be told.
Result<> look_at_flags(const StoppedProcess& process, StillMap& map) {
    const auto any = [&](const char* field) {
        const auto size = process.status()[field];
        return size != "0 kB" && !size.empty();
    };
    // None of its pages need be there yet, or be in this process's page tables. What has no name is on one of
    // two file systems of the kernel's own, of which the other has ordinary pages.
    const auto may_be_huge = [ordinary = device_of_shared_memory()](const proc::MapLine& line) {
        return line.deleted && line.major == 0 && has_file(line) &&
               ::makedev(line.major, line.minor) != ordinary;
    };
    const bool huge = any("HugetlbPages") || std::ranges::any_of(map.lines, may_be_huge);
    if (!huge && !any("VmLck")) return {};
    const auto flagged = TRY(proc::maps(process.living, true));
    for (const auto& line : flagged) {
        // a fork's child doesn't inherit locks
        if (has_flag(line, "lo")) map.locked.push_back({{line.start, line.end}, has_flag(line, "lf")});
        if (has_flag(line, "ht")) map.huge[line.start] = line.page_size;
    }
    return {};
}

}  // namespace

bool is_private_huge(const StillMap& map, const proc::MapLine& line) {
    return !line.shared && map.huge.contains(line.start);
}

Result<MemoryFlags> memory_flags(pid_t pid) {
    const auto lines = TRY(proc::maps(pid, true));
    if (lines.empty()) return fail("process {} shows no memory: its main thread has ended", pid);
    return flags_among(lines);
}

MemoryFlags flags_among(const std::vector<proc::MapLine>& lines) {
    MemoryFlags flags;
    for (const auto& line : lines) {
        if (has_flag(line, "wf") && !has_flag(line, "dp")) flags.wiped.push_back({line.start, line.end});
        flags.watched |= has_flag(line, "um") || has_flag(line, "ui");
        flags.write_protected |= has_flag(line, "uw");
        if (has_flag(line, "gd")) flags.growing.push_back({line.start, line.end});
    }
    return flags;
}

Result<std::vector<std::vector<proc::MapLine>>> mappings_of_all(const std::vector<pid_t>& pids) {
    std::vector<std::vector<proc::MapLine>> all(pids.size());
    CHECK_OK(each_in_parallel(pids.size(), [&](std::size_t i) -> Result<> {
        all[i] = TRY(proc::maps(pids[i], false));
        return {};
    }));
    return all;
}

Result<StillMap> still_map(const StoppedProcess& process, const Holder& holder,
                           std::vector<proc::MapLine> lines, ObjectTable& objects) {
    StillMap map;
    map.lines = std::move(lines);
    CHECK_OK(look_at_flags(process, map));
    for (const auto& line : map.lines) {
        if (line.shared && line.name.starts_with("/dev/shm/") && !line.deleted &&
            objects.is_of_own_mounts(holder, mapping_of(map, line)))
            map.own_files.insert(line.start);
        const auto kind = kind_of(process, map, line);
        Result<std::int64_t> object = -1;
        if (kind == schema::AreaKind::file_private || kind == schema::AreaKind::file_shared)
            object = objects.mapped_file(holder, mapping_of(map, line));
        else if (kind == schema::AreaKind::shared_memory)
            object = objects.shared_memory(holder, mapping_of(map, line));
        if (!object) return std::unexpected(std::move(object.error()));
        map.objects[line.start] = *object;
    }
    return map;
}

bool is_uncopied(const proc::MapLine& line, const std::vector<proc::MapLine>& child) {
    if (proc::is_kernels_mapping(line.name)) return false;
    // MADV_DONTFORK works on whole areas: one is there or it isn't.
    const auto there = begins_before(child, line.start, &proc::MapLine::start);
    return there == child.end() || there->end <= line.start;
}

std::vector<ProgramRange> not_copied(const StillMap& map, const std::vector<proc::MapLine>& child,
                                     const std::vector<ProgramRange>& wiped) {
    std::vector<ProgramRange> ranges = wiped;
    for (const auto& line : map.lines) {
        if (line.shared || !is_uncopied(line, child)) continue;
        // It may be marked as both.
        std::erase_if(ranges, [&](const ProgramRange& range) {
            return line.start <= range.start && range.end <= line.end;
        });
        ranges.push_back({line.start, line.end});
    }
    return ranges;
}

Result<std::vector<schema::Area>> make_areas(const StoppedProcess& process, const StillMap& map,
                                             ProgramRange scratch) {
    std::vector<schema::Area> areas;
    areas.reserve(map.lines.size());
    for (const auto& line : map.lines) {
        if (line.name == "[vsyscall]") continue;
        CHECK_OK(refuse_ring(process, line));
        schema::Area area;
        area.prot = line.prot;
        area.kind = kind_of(process, map, line);
        area.name = line.name;
        area.object = map.objects.at(line.start);
        if (is_private_huge(map, line))
            area.huge_pages =
                schema::HugePages{static_cast<std::uint32_t>(std::countr_zero(map.huge.at(line.start))), {}};
        const auto locked =
            begins_before(map.locked, line.start, [](const auto& each) { return each.first.start; });
        if (locked != map.locked.end() && line.start < locked->first.end) {
            area.locked = true;
            area.lock_on_fault = locked->second;
        }
        // The agent's scratch memory may have merged with a neighbour of the program's.
        const auto add = [&](ProgramAddress start, ProgramAddress end) {
            if (start >= end) return;
            area.start = start;
            area.end = end;
            area.file_offset = line.offset + (start - line.start);
            areas.push_back(area);
        };
        if (scratch.overlaps({line.start, line.end})) {
            add(line.start, std::max(line.start, scratch.start));
            add(std::min(line.end, scratch.end), line.end);
        } else {
            add(line.start, line.end);
        }
    }
    return areas;
}

Result<> add_flags(const StoppedProcess& process, const std::vector<proc::MapLine>& flags,
                   std::vector<schema::Area>& areas) {
    // The child's come first, and then what it hasn't.
    std::vector<const proc::MapLine*> in_order;
    for (const auto& each : flags) in_order.push_back(&each);
    std::ranges::sort(in_order, {}, [](const auto* each) { return each->start; });
    for (auto& area : areas) {
        const auto found = begins_before(in_order, area.start, [](const auto* each) { return each->start; });
        if (found == in_order.end() || area.start >= (*found)->end) continue;
        const auto& line = **found;
        CHECK_OK(refuse_device(process, area, line));
        area.grows_down = has_flag(line, "gd");
        area.no_reserve = has_flag(line, "nr");
        area.dont_fork = has_flag(line, "dc") && !proc::is_kernels_mapping(area.name);
        area.wipe_on_fork = has_flag(line, "wf");
        area.droppable = has_flag(line, "dp");
        area.never_writable = is_shared(area) && !line.flags.empty() && !has_flag(line, "mw");
        if (has_flag(line, "rr")) area.random = true;
        if (has_flag(line, "sr")) area.sequential = true;
        area.dont_dump = has_flag(line, "dd");
        area.huge = has_flag(line, "hg");
        area.no_huge = has_flag(line, "nh");
        area.mergeable = has_flag(line, "mg");
        if (has_flag(line, "sl") && !proc::is_kernels_mapping(area.name)) area.sealed = true;
        if (line.protection_key != 0) area.protection_key = line.protection_key;
    }
    return {};
}

}  // namespace cairn::capture
