#include "restart/passes/check.h"

#include <cstdlib>

#include "common/privileges.h"
#include "resources/schema/descriptor_room.h"
#include "restart/verify.h"

namespace cairn::restart::pass {

Result<ObjectSetOptions> check(const Options& options, Computation& computation, Notes& notes) {
    if (options.verify) CHECK_OK(can_verify(computation.directory));
    auto& objects = computation.objects.objects;
    ObjectSetOptions opening;
    opening.files = options.files;
    opening.path_map = options.path_map;
    opening.directory = computation.directory;
    opening.access = Access(objects, computation.processes, opening.directory);
    // for tests of what is done where the descriptors don't fit
    const bool few = std::getenv("CAIRN_FEW_DESCRIPTORS") != nullptr;
    const auto room =
        TRY(find_descriptor_room(computation.processes, objects, raise_descriptor_limit(), few));
    opening.floor = room.floor;
    opening.width = room.width;
    ObjectSet::prefer_files(objects, opening, notes.list);
    opening.writable_mappings = open_as_mapped(objects, computation.processes);
    opening.remade = files_to_make(objects, opening);
    CHECK_OK(check_files(objects, opening, notes.list));
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        if (!options.environment.empty()) CHECK_OK(may_change_environment(process));
        if (own_privileges().bounding_of(process) == process.cap_bounding) continue;
        notes.list.push_back(
            fmt::format("process {} ({}) had a smaller capability bounding set, which only a restart "
                        "with CAP_SETPCAP can give it",
                        process.pid, process.name));
    }
    notes.print();
    return opening;
}

}  // namespace cairn::restart::pass
