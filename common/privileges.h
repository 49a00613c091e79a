// What the restart tool may do itself, to be compared with what an image needs.
#pragma once

#include <cstdint>
#include <vector>

#include "common/schema/process.h"

namespace cairn {

struct Privileges {
    std::uint32_t uids[4] = {}, gids[4] = {};
    std::vector<std::uint32_t> groups;
    std::uint64_t inheritable = 0, permitted = 0, effective = 0, bounding = 0, ambient = 0;

    // Would a process that this tool starts have the image's credentials without any change?
    [[nodiscard]] bool same_as(const schema::Process& process) const;
    // What the image's bounding set becomes: taking out of it needs CAP_SETPCAP (capabilities(7)).
    [[nodiscard]] std::uint64_t bounding_of(const schema::Process& process) const;
};
[[nodiscard]] const Privileges& own_privileges();
// Its capabilities have changed; user and groups are said as they were outside of a new user namespace.
void capabilities_have_changed();

struct Scheduling {
    std::uint32_t policy = 0, priority = 0;
    std::int32_t nice = 0, ioprio = 0;
    [[nodiscard]] bool same_as(const schema::Thread& thread) const;
};
[[nodiscard]] Scheduling own_scheduling();
// What ioprio_get(2) has said, so that ioprio_set(2) takes it: of who has never set one Linux before 5.18
// says class none with a level, which no kernel lets anybody set.
[[nodiscard]] std::int32_t io_priority(std::int32_t said);

}  // namespace cairn
