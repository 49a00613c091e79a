#include "restart/passes/read.h"

#include <algorithm>
#include <set>

#include "resources/schema/descriptor_room.h"
#include "resources/system_v/restore.h"
#include "restart/old_vdso.h"
#include "restart/other_cpu.h"
#include "restart/protections.h"

namespace cairn::restart::pass {
namespace {

// Another part's files are none of our business.
void keep_own_objects(Computation& computation) {
    std::set<std::int64_t> used;
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        used.insert(process.terminal);
        const auto needed = needed_to_rebuild(process);
        used.insert(needed.begin(), needed.end());
        for (const auto& descriptor : process.descriptors) used.insert(descriptor.object);
    }
    auto& list = computation.objects.objects.objects;
    for (const auto& object : list)
        if (used.contains(object.id) && object.backing >= 0) used.insert(object.backing);
    // What is in an IPC namespace of a process's own is there whoever has it open.
    for (const auto& object : list)
        if (const auto* queue = object.get<schema::Mqueue>();
            queue != nullptr && queue->space && used.contains(*queue->space))
            used.insert(object.id);
    std::erase_if(list, [&](const schema::Object& object) {
        return !used.contains(object.id) && !is_system_v(object);
    });
}

// The checkpoint was told to (common/landlock_policy.h); who restarts it may be somebody else.
void note_unrestricted(const Computation& computation, std::vector<std::string>& notes) {
    for (const auto& process : computation.processes)
        if (std::ranges::any_of(process.threads,
                                [](const auto& thread) { return thread.landlock_layers.has_value(); }))
            notes.push_back(
                fmt::format("{} ({}) was restricted by Landlock (landlock(7)), and isn't any more",
                            process.pid, process.name));
}

}  // namespace

Result<Computation> read(const Options& options, Notes& notes) {
    const auto directory = TRY(find_part(options.directory, options.host, options.trust_folder));
    auto computation = TRY(read_computation(directory, options.parts));
    if (!options.parts.empty()) keep_own_objects(computation);
    const auto cpu = this_cpu();
    CHECK_OK(judge_cpu(computation.manifest, cpu, notes.list));
    CHECK_OK(fit_registers(computation, cpu));
    CHECK_OK(keep_old_vdsos(computation));
    note_unrestricted(computation, notes.list);
    CHECK_OK(refuse_gain_of_execution(computation));
    note_protections(computation, notes.list);
    return computation;
}

}  // namespace cairn::restart::pass
