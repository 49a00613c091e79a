// What changes of memory make of what is missing there.
//
// The kernel makes a change, lets go of the memory map, and only then tells of it
// (userfaultfd_unmap_complete, mremap_userfaultfd_complete, dup_userfaultfd_complete in fs/userfaultfd.c). So
// of changes that two threads make at once the later one can be told of first, and nothing in an event says
// which thread made it. The rule that makes the order unimportant:
//
//   Whoever has changed memory is held at the end of his call until everybody's change that was under way
//   has been told (restart/pages/hold.h). So each thread has made at most one of the changes of a batch,
//   and no thread has yet been told of another's. What a thread moves, unmaps or drops is then what was
//   there before all of them: a program knows an address only from a call that has returned. And where
//   something moves to was free at that moment, because the kernel has chosen the place, or has unmapped what
//   was there and told of it.
//
// So all changes of a batch are applied to the state before, at once. Two threads that change the very same
// memory without waiting for each other race, with or without a restart; that is seen, and never guessed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "restart/pages/missing.h"

namespace cairn::restart::pages {

enum class Change {
    fork,
    remap,   // mremap(2) moved pages
    remove,  // pages go, the mapping stays: madvise(MADV_DONTNEED). Told before it happens
    unmap,
};

struct Event {
    Change kind = Change::remove;
    ProgramAddress from{};
    std::uint64_t length = 0;
    ProgramAddress to{};      // remap
    std::uint32_t child = 0;  // fork: its number among the spaces
    bool operator==(const Event&) const = default;
};

// What is missing when all of `batch` has happened. Nothing if two threads have changed the same memory.
[[nodiscard]] std::optional<Missing> apply_all(const Missing& before, std::span<const Event> batch);

// Whether it says something else in another order: for a batch of which not everybody could be held.
[[nodiscard]] bool order_matters(std::span<const Event> batch);

// What is missing in a child that was born while `batch` was under way. Whether an address is registered with
// the userfaultfd is asked of the child, as it was at its birth, and of the parent, as it is behind the
// batch. Nothing: as apply_all(), or somebody's memory has grown to where something was unmapped, which no
// event tells.
using Registered = std::function<bool(ProgramAddress)>;
[[nodiscard]] std::optional<Missing> missing_at_birth(const Missing& before, std::span<const Event> batch,
                                                      const Registered& in_child,
                                                      const Registered& in_parent);

}  // namespace cairn::restart::pages
