#include "capture/restartable.h"

#include "resources/schema/descriptor_room.h"

namespace cairn::capture {

Result<std::string> too_many_to_restart(const std::vector<schema::Process>& processes,
                                        const schema::Objects& objects) {
    const auto limit = raise_descriptor_limit();
    auto room = find_descriptor_room(processes, objects, limit);
    if (room) return std::string();
    for (const auto& process : processes) CHECK_OK(last_descriptor(process, limit));
    return std::move(room.error().what);
}

}  // namespace cairn::capture
