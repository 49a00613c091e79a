// In which order the changes of memory happened that a userfaultfd told of.
//
// The kernel makes a change, lets go of the memory map, and then queues the event
// (userfaultfd_unmap_complete, mremap_userfaultfd_complete, dup_userfaultfd_complete in fs/userfaultfd.c).
// Another thread can make another change of the same addresses in between and be told of first: munmap() by
// one thread, mremap() to the hole by another. So events that were under way at the same time and touch the
// same addresses are brought into every order, and each is compared with what is registered now.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "restart/pages/missing.h"

namespace cairn::restart::pages {

using SpaceId = std::uint32_t;
using Spaces = std::map<SpaceId, Missing>;

enum class Change {
    fork,    // space -> child
    remap,   // mremap(2) moved pages
    remove,  // pages go, the mapping stays: madvise(MADV_DONTNEED). Told before it happens
    unmap,
    closed,  // nobody is served there any more
};

struct Event {
    SpaceId space = 0;
    Change kind = Change::remove;
    std::uint64_t from = 0, length = 0;
    std::uint64_t to = 0;  // remap
    SpaceId child = 0;     // fork
    bool operator==(const Event&) const = default;
};

void apply(const Event& event, Spaces& spaces);

// Is this address registered with the space's userfaultfd, now that all events of `batch` have happened?
using Registered = std::function<bool(SpaceId, std::uint64_t)>;

// `batch` as read. Returns the indexes in the order in which to apply them; none if what is registered
// doesn't tell which of several outcomes is the right one.
[[nodiscard]] std::optional<std::vector<std::size_t>> settle_order(const Spaces& before,
                                                                   std::span<const Event> batch,
                                                                   const Registered& registered);

}  // namespace cairn::restart::pages
