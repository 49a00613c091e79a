#include "restart/rebuild/parameters.h"

#include <linux/filter.h>
#include <linux/prctl.h>
#include <sys/sem.h>

#include <algorithm>
#include <cstdlib>

#include "common/ipc_map.h"
#include "common/privileges.h"
#include "common/proc.h"
#include "common/protections.h"
#include "restart/protections.h"

namespace cairn::restart {
namespace {

// Where a special mapping that the fresh program has at `line` belongs.
Result<ProgramAddress> place_of(const schema::Process& process, const std::vector<proc::MapLine>& lines,
                                const proc::MapLine& line, const Placement& placement) {
    const auto area = std::ranges::find_if(process.areas, [&](const auto& each) {
        return is_special(each) && each.name == line.name && each.end - each.start == line.end - line.start;
    });
    if (placement.special.known() && area == process.areas.end()) {
        const auto first = std::ranges::find_if(lines, [](const auto& each) { return is_special(each); });
        return placement.special + (line.start - first->start);
    }
    if (area == process.areas.end())
        return fail_code(ExitCode::refused, "process {}: the image has no {} of {} bytes", process.pid,
                         line.name, line.end - line.start);
    return area->start;
}

// The parts of a mapping that are none of these; they are in order.
void add_rest(ProgramRange mapping, const std::vector<ProgramRange>& kept,
              std::vector<restorer::Span>& spans) {
    for (const auto& range : kept) {
        if (!range.overlaps(mapping)) continue;
        if (mapping.start < range.start)
            spans.push_back({mapping.start.value(), range.start - mapping.start});
        mapping.start = std::min(range.end, mapping.end);
    }
    if (mapping.start < mapping.end) spans.push_back({mapping.start.value(), mapping.length()});
}

// What the fresh program has mapped, or an heir's parent: the kernel's special mappings go where they belong,
// by way of the staging place, and the rest goes away but for what is inherited.
Result<std::vector<restorer::Move>> add_old_mappings(ParameterBlock& block, const Rebuilding& rebuilding,
                                                     const std::vector<proc::MapLine>& lines,
                                                     const Placement& placement) {
    const schema::Process& process = *rebuilding.process;
    std::vector<restorer::Span> unmap;
    std::vector<restorer::Move> moves;
    auto staging = placement.staging;
    for (const auto& line : lines) {
        if (line.name == "[vsyscall]") continue;  // it is nobody's to move or unmap
        const auto length = line.end - line.start;
        if (!is_special(line)) {
            add_rest({line.start, line.end}, rebuilding.memory.inherited, unmap);
            continue;
        }
        const auto to = TRY(place_of(process, lines, line, placement));
        moves.push_back({line.start.value(), staging.value(), to.value(), length});
        staging += length;
    }
    block.add(unmap, &restorer::Params::unmap, &restorer::Params::unmap_count);
    block.add(moves, &restorer::Params::moves, &restorer::Params::move_count);
    return moves;
}

void add_layout(ParameterBlock& block, const schema::MemoryLayout& layout) {
    const auto auxv = block.add(layout.auxv);
    prctl_mm_map map = {};
    map.start_code = layout.start_code.value();
    map.end_code = layout.end_code.value();
    map.start_data = layout.start_data.value();
    map.end_data = layout.end_data.value();
    map.start_brk = layout.start_brk.value();
    map.brk = layout.brk.value();
    map.start_stack = layout.start_stack.value();
    map.arg_start = layout.arg_start.value();
    map.arg_end = layout.arg_end.value();
    map.env_start = layout.env_start.value();
    map.env_end = layout.env_end.value();
    map.auxv = reinterpret_cast<__u64*>(auxv.value());
    map.auxv_size = static_cast<__u32>(layout.auxv.size());
    map.exe_fd = ~0U;
    const auto map_at = block.add(&map, sizeof map);
    block.params().layout = map_at.value();
    block.params().layout_size = sizeof map;
}

void add_folders(ParameterBlock& block, const schema::Process& process, const Inherited& inherited) {
    auto& params = block.params();
    const auto place = [&](std::int64_t object) {
        return object >= 0 ? inherited.objects.place_of(process, object) : -1;
    };
    params.root_fd = place(process.root);
    params.cwd_fd = place(process.cwd);
    const auto root = inherited.in_proc_of_the_dead(process.root);
    if (root.empty()) return;
    params.root_fd = -1;
    if (inherited.in_proc_of_the_dead(process.cwd) == root) params.cwd_fd = -1;
    const auto at = block.add(root.c_str(), root.size() + 1);
    block.params().root_of_the_dead = at.value();
}

void add_namespaces(ParameterBlock& block, const schema::Process& process, const Inherited& inherited) {
    std::vector<std::int32_t> all;
    // The user namespace that its pid namespace belongs to, and those above, it was born into.
    const auto born_into = process.own_pids ? process.own_pids->owner : -1;
    if (process.namespaces) {
        const auto last = std::ranges::find(*process.namespaces, born_into);
        auto next = last == process.namespaces->end() ? process.namespaces->begin() : last + 1;
        for (; next != process.namespaces->end(); ++next)
            all.push_back(inherited.objects.place_of(process, *next));
    }
    block.add(all, &restorer::Params::namespaces, &restorer::Params::namespace_count);
    if (process.clocks_of_children) {
        auto offsets = proc::clock_offsets("self");  // of the namespace that the programs are given
        offsets.monotonic += process.clocks_of_children->monotonic;
        offsets.boottime += process.clocks_of_children->boottime;
        const auto text = proc::offsets_text(offsets);
        block.params().clocks_of_children = block.add(text.data(), text.size()).value();
        block.params().clocks_of_children_size = text.size();
    }
    if (!process.mounts) return;
    auto& params = block.params();
    params.own_cwd = block.add(process.mounts->cwd.c_str(), process.mounts->cwd.size() + 1).value();
    if (process.mounts->root != "/")
        params.own_root = block.add(process.mounts->root.c_str(), process.mounts->root.size() + 1).value();
}

void add_credentials(ParameterBlock& block, const Rebuilding& rebuilding) {
    const auto& process = *rebuilding.process;
    const auto& own = own_privileges();
    const auto& other = rebuilding.other_users;
    const auto& groups = other ? other->groups : process.groups;
    const auto groups_at = block.add(groups);
    auto& wanted = block.params().credentials;
    // Nobody has outside what he has in a namespace of his own.
    const bool in_own = process.namespaces.has_value();
    wanted.change = !in_own && own.same_as(process) ? 0 : 1;
    std::ranges::copy(other ? other->uids : process.uids, wanted.uids);
    std::ranges::copy(other ? other->gids : process.gids, wanted.gids);
    wanted.securebits = process.securebits;
    wanted.no_new_privs = process.no_new_privs ? 1 : 0;
    wanted.keep_caps = process.keep_caps ? 1 : 0;
    wanted.set_groups = other ? (other->sets_groups ? 1 : 0) : own.groups == process.groups ? 0 : 1;
    wanted.groups = groups_at.value();
    wanted.group_count = groups.size();
    wanted.cap_bounding = own.bounding_of(process);
    wanted.ids_kept = process.own_pids && process.own_pids->owner >= 0 && !other ? 1 : 0;
}

void add_undo(ParameterBlock& block, const schema::Process& process, IpcMap& ipc, const SystemV& system_v) {
    std::vector<restorer::Undo> all;
    const bool in_own = system_v.own_space_of(process).has_value();
    for (const auto& undo : process.undo) {
        restorer::Undo out = {};
        out.semaphores = in_own ? undo.semaphores : ipc_to_real(ipc, IpcKind::semaphores, undo.semaphores);
        const auto number = static_cast<std::uint16_t>(undo.number);
        const auto amount = static_cast<std::int16_t>(std::abs(undo.adjust));
        // The kernel promises the opposite of what is done.
        const auto up = static_cast<std::int16_t>(undo.adjust < 0 ? IPC_NOWAIT | SEM_UNDO : IPC_NOWAIT);
        const auto down = static_cast<std::int16_t>(undo.adjust < 0 ? IPC_NOWAIT : IPC_NOWAIT | SEM_UNDO);
        out.operations[0] = {number, amount, up};
        out.operations[1] = {number, static_cast<std::int16_t>(-amount), down};
        all.push_back(out);
    }
    block.add(all, &restorer::Params::undo, &restorer::Params::undo_count);
}

void add_births(ParameterBlock& block, const Rebuilding& rebuilding, bool exact_ids) {
    std::vector<std::int32_t> births;
    for (const auto& [place, id] : rebuilding.heirs) births.push_back(exact_ids ? id.number() : 0);
    block.add(births, &restorer::Params::births, &restorer::Params::birth_count);
    block.add(rebuilding.stand_in.held, &restorer::Params::held, &restorer::Params::held_count);
    const auto& process = *rebuilding.process;
    auto& params = block.params();
    params.stand_in = rebuilding.stand_in.pid;
    params.own_group = rebuilding.is_heir && process.pgid == process.pid ? 1 : 0;
    while (std::ranges::binary_search(rebuilding.stand_in.held, params.stand_in_seat)) ++params.stand_in_seat;
}

std::vector<ProgramAddress> add_filters(ParameterBlock& block, const schema::Process& process) {
    std::vector<ProgramAddress> filters;
    for (const auto& filter : process.filters) {
        const auto code = block.add(filter.code);
        const sock_fprog program = {static_cast<unsigned short>(filter.code.size() / sizeof(sock_filter)),
                                    reinterpret_cast<sock_filter*>(code.value())};
        filters.push_back(block.add(&program, sizeof program));
    }
    return filters;
}

void add_protections(ParameterBlock& block, const schema::Process& process) {
    std::vector<restorer::Span> sealed;
    for (const auto& area : process.areas)
        if (area.sealed.value_or(false) && knows_mseal())
            sealed.push_back({area.start.value(), area.end - area.start});
    block.add(sealed, &restorer::Params::sealed, &restorer::Params::sealed_count);
    const auto keys = process.protection_keys.value_or(0);
    std::vector<restorer::KeyedArea> keyed;
    for (const auto& area : process.areas)
        // Not of memory that can be executed alone: the kernel has one for it that nobody has allocated.
        if (const auto key = area.protection_key.value_or(0);
            key < protection_key_count && (keys >> key & 1) != 0)
            keyed.push_back({area.start.value(), area.end - area.start, area.prot, key});
    block.add(keyed, &restorer::Params::keyed, &restorer::Params::keyed_count);
    block.params().protection_keys = keys;
    // What the tool has it inherits, and nobody can change that.
    if (knows_mdwe() && own_protections().deny_write_execute == 0)
        block.params().deny_write_execute = process.deny_write_execute.value_or(0);
}

}  // namespace

bool is_special(const schema::Area& area) {
    return area.kind == schema::AreaKind::vdso || area.kind == schema::AreaKind::vvar;
}

bool is_special(const proc::MapLine& line) {
    return proc::is_kernels_mapping(line.name) && line.name != "[vsyscall]";
}

Result<> add_parameters(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited,
                        const std::vector<proc::MapLine>& lines, Placement& placement) {
    const schema::Process& process = *rebuilding.process;
    const auto special = TRY(add_old_mappings(block, rebuilding, lines, placement));
    add_areas(block, rebuilding, inherited, placement, special);
    placement.threads = add_threads(block, rebuilding, inherited);
    add_signals(block, rebuilding);
    add_credentials(block, rebuilding);
    CHECK_OK(add_descriptors(block, rebuilding, inherited));
    add_namespaces(block, process, inherited);
    add_undo(block, process, *rebuilding.translation.ipc, inherited.system_v);
    placement.filters = add_filters(block, process);
    add_layout(block, process.layout);

    add_births(block, rebuilding, inherited.exact_ids);

    auto& params = block.params();
    params.reader_spaces = placement.reader_spaces.value();
    params.attach_at = placement.attach.value();
    params.children_pids = rebuilding.first_of_children.number();
    params.children_pids_early = rebuilding.children_pids_early ? 1 : 0;
    params.empty_pids = process.empty_pids ? 1 : 0;
    params.ended_pids = process.empty_pids == schema::EmptyPids::ended ? 1 : 0;
    params.umask = process.umask;
    params.subreaper = process.subreaper ? 1 : 0;
    params.thp_disable = process.thp_disable ? 1 : 0;
    params.thp_disable_flags = process.thp_disable_flags.value_or(0);
    add_protections(block, process);
    params.state_permission = process.state_permission.value_or(0);
    params.dumpable = process.dumpable;
    params.membarrier = process.membarrier;
    params.lock_future = process.lock_future;
    params.personality = process.personality;
    add_folders(block, process, inherited);
    return {};
}

}  // namespace cairn::restart
