#include "capture/restartable.h"

#include "common/descriptor_room.h"

namespace cairn::capture {

Result<std::string> too_many_to_restart(const std::vector<schema::Process>& processes,
                                        const schema::Objects& objects) {
    const auto limit = raise_descriptor_limit();
    auto room = find_descriptor_room(processes, objects, limit);
    if (room) return std::string();
    for (const auto& process : processes)
        if (auto last = last_descriptor(process, limit); !last)
            return std::unexpected(std::move(last.error()));
    return std::move(room.error().what);
}

}  // namespace cairn::capture
