#include "capture/memory/areas.h"

#include <linux/memfd.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "resources/io_uring/schema_ring.h"

namespace cairn::capture {
namespace {

bool has_flag(const proc::MapLine& line, std::string_view flag) {
    for (std::size_t at = line.flags.find(flag); at != std::string::npos; at = line.flags.find(flag, at + 1))
        if (at % 3 == 1 || at == 0) return true;  // two letters and a blank each, a blank in front
    return false;
}

// The kernel's own mappings carry a name in brackets; those that are the program's are known, any other is
// the kernel's and has to be moved into place at a restart (vvar_vclock came with 6.13, others will).
bool special(const std::string& name) {
    return name.starts_with('[') && name != "[heap]" && !name.starts_with("[stack") &&
           !name.starts_with("[anon");
}

bool has_file(const proc::MapLine& line) {
    return line.inode != 0 || line.major != 0 || line.minor != 0;
}

Mapping mapping_of(const proc::MapLine& line) {
    Mapping mapping;
    mapping.start = line.start;
    mapping.end = line.end;
    mapping.offset = line.offset;
    mapping.device = ::makedev(line.major, line.minor);
    mapping.inode = line.inode;
    mapping.path = line.name;
    mapping.deleted = line.deleted;
    mapping.shared = line.shared;
    mapping.writable = (line.prot & 2) != 0 || has_flag(line, "mw");
    return mapping;
}

bool is_region(const StoppedProcess& process, const std::vector<proc::MapLine>& lines,
               const proc::MapLine& line) {
    const auto region = std::ranges::find(lines, process.region_at, &proc::MapLine::start);
    return region != lines.end() && line.shared && line.inode == region->inode &&
           line.major == region->major && line.minor == region->minor;
}

// Shared memory of huge pages is an object, whose contents are read by a descriptor, and which is made again
// with pages of that size.
bool is_known_huge(const schema::Object* object) {
    const auto* memory = object == nullptr ? nullptr : object->get<schema::Memory>();
    return memory != nullptr && memory->type != schema::MemoryType::sysv &&
           (static_cast<unsigned>(memory->memfd_flags) & MFD_HUGETLB) != 0;
}

Result<> refuse(const StoppedProcess& process, const proc::MapLine& line, const schema::Object* object) {
    const auto who = [&] {
        return fmt::format("{}: memory {:#x}-{:#x} {}", proc::label(process.pid), line.start, line.end,
                           line.name);
    };
    if (special(line.name) || line.name == ring_name) return {};
    // The ring of io_setup(2), which the kernel knows by its address (fs/aio.c, aio_setup_ring()).
    if (line.shared && line.name.starts_with("/[aio]"))
        return fail_code(
            ExitCode::refused,
            "{}: has a context of Linux AIO (io_setup(2)), which can't be saved: tell the program to do "
            "without (MariaDB: --innodb-use-native-aio=0)",
            proc::label(process.pid));
    if (has_flag(line, "um") || has_flag(line, "uw"))
        return fail_code(ExitCode::refused, "{} is watched by a userfaultfd, which can't be saved", who());
    if (has_flag(line, "ht") && !is_known_huge(object))
        return fail_code(ExitCode::refused,
                         "{} is made of hugetlb pages, which can be saved of memfds and, by root, of shared "
                         "anonymous memory only: use these, or madvise(MADV_HUGEPAGE)",
                         who());
    if (has_flag(line, "io") || has_flag(line, "pf"))
        return fail_code(ExitCode::refused, "{} is a device's memory, which can't be saved", who());
    return {};
}

schema::AreaKind kind_of(const StoppedProcess& process, const StillMap& map, const proc::MapLine& line) {
    using schema::AreaKind;
    if (line.name == "[vdso]") return AreaKind::vdso;
    if (special(line.name)) return AreaKind::vvar;
    if (is_region(process, map.lines, line)) return AreaKind::region;
    if (!line.shared) return has_file(line) ? AreaKind::file_private : AreaKind::anonymous;
    return ObjectTable::is_shared_memory(mapping_of(line)) ? AreaKind::shared_memory : AreaKind::file_shared;
}

}  // namespace

Result<std::vector<ProgramRange>> wiped_by_fork(pid_t pid) {
    const auto lines = TRY(proc::maps(pid, true));
    std::vector<ProgramRange> ranges;
    for (const auto& line : lines)
        if (has_flag(line, "wf") && !has_flag(line, "dp")) ranges.push_back({line.start, line.end});
    return ranges;
}

Result<StillMap> still_map(const StoppedProcess& process, const Holder& holder, ObjectTable& objects) {
    StillMap map;
    auto lines = TRY(proc::maps(process.living, false));
    map.lines = std::move(lines);
    for (const auto& line : map.lines) {
        const auto kind = kind_of(process, map, line);
        Result<std::int64_t> object = -1;
        if (kind == schema::AreaKind::file_private || kind == schema::AreaKind::file_shared)
            object = objects.mapped_file(holder, mapping_of(line));
        else if (kind == schema::AreaKind::shared_memory)
            object = objects.shared_memory(holder, mapping_of(line));
        if (!object) return std::unexpected(std::move(object.error()));
        map.objects[line.start] = *object;
    }
    auto status = proc::status(process.pid, process.first_living().tid);
    if (status && (*status)["VmLck"] != "0 kB" && !(*status)["VmLck"].empty()) {
        auto flagged = proc::maps(process.living, true);  // a fork's child doesn't inherit locks
        if (!flagged) return std::unexpected(std::move(flagged.error()));
        for (const auto& line : *flagged)
            if (has_flag(line, "lo")) map.locked.push_back({{line.start, line.end}, has_flag(line, "lf")});
    }
    return map;
}

bool is_uncopied(const proc::MapLine& line, const std::vector<proc::MapLine>& child) {
    if (special(line.name)) return false;
    // MADV_DONTFORK works on whole areas: one is there or it isn't.
    const auto behind = std::ranges::upper_bound(child, line.start, {}, &proc::MapLine::start);
    return behind == child.begin() || std::prev(behind)->end <= line.start;
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
                                             const std::vector<proc::MapLine>& flags, ProgramRange scratch,
                                             const ObjectTable& objects) {
    std::vector<schema::Area> areas;
    for (const auto& line : map.lines) {
        if (line.name == "[vsyscall]") continue;
        auto flagged = std::ranges::find_if(
            flags, [&](const auto& other) { return other.start <= line.start && line.start < other.end; });
        proc::MapLine with_flags = line;
        if (flagged != flags.end()) with_flags.flags = flagged->flags;
        const auto id = map.objects.at(line.start);
        const bool shared = kind_of(process, map, line) == schema::AreaKind::shared_memory;
        CHECK_OK(refuse(process, with_flags, shared && id >= 0 ? &objects.object(id) : nullptr));

        schema::Area area;
        area.prot = line.prot;
        area.kind = kind_of(process, map, line);
        area.name = line.name;
        area.object = id;
        area.grows_down = has_flag(with_flags, "gd");
        area.no_reserve = has_flag(with_flags, "nr");
        area.dont_fork = has_flag(with_flags, "dc") && !special(line.name);
        area.wipe_on_fork = has_flag(with_flags, "wf");
        area.droppable = has_flag(with_flags, "dp");
        area.never_writable = line.shared && !with_flags.flags.empty() && !has_flag(with_flags, "mw");
        if (has_flag(with_flags, "rr")) area.random = true;
        if (has_flag(with_flags, "sr")) area.sequential = true;
        area.dont_dump = has_flag(with_flags, "dd");
        area.huge = has_flag(with_flags, "hg");
        area.no_huge = has_flag(with_flags, "nh");
        area.mergeable = has_flag(with_flags, "mg");
        for (const auto& [range, on_fault] : map.locked) {
            if (line.start < range.start || line.start >= range.end) continue;
            area.locked = true;
            area.lock_on_fault = on_fault;
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

}  // namespace cairn::capture
