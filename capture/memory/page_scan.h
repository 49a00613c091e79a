// The ioctl PAGEMAP_SCAN of /proc/PID/pagemap: linux/fs.h of 6.7; Debian 12's headers are older.
#pragma once

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace cairn::capture::page_scan {

struct Region {
    std::uint64_t start, end, categories;
};
struct Argument {
    std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
        category_mask, category_anyof_mask, return_mask;
};
// So many answers the kernel collects before it hands them out (the entries of a page table).
inline constexpr std::size_t most_regions = 512;

// Where to go on behind a call that has given `found`, in places for `room` of them; Argument::end: there is
// no more. What the kernel says itself (walk_end) isn't to be believed: where it has handed out some in
// between, it says that place, although it has gone on to the end, and who goes on from there is given what
// is behind it a second time (do_pagemap_scan() in fs/proc/task_mmu.c sets it at every such stop, and at the
// end only if there was none; seen on 6.18).
[[nodiscard]] inline std::uint64_t next_start(const Argument& argument, std::span<const Region> found,
                                              std::size_t room) {
    if (found.size() < room) return argument.end;
    return std::max(argument.walk_end, found.back().end);
}

inline constexpr unsigned long request = _IOWR('f', 16, Argument);

// What a page can be.
inline constexpr std::uint64_t may_be_marked = 1,  // a userfaultfd has asynchronous write protection there
    is_written = 2,                                // it has no mark
    is_file = 4, is_present = 8, is_swapped = 16, is_zero = 32, is_guard = 256;

// A flag: what is found gets a mark, page for page in one step.
inline constexpr std::uint64_t set_marks = 1;

}  // namespace cairn::capture::page_scan
