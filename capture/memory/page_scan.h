// The ioctl PAGEMAP_SCAN of /proc/PID/pagemap: linux/fs.h of 6.7; Debian 12's headers are older.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace cairn::capture::page_scan {

struct Region {
    std::uint64_t start, end, categories;
};
struct Argument {
    std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
        category_mask, category_anyof_mask, return_mask;
};
inline constexpr unsigned long request = _IOWR('f', 16, Argument);

// What a page can be.
inline constexpr std::uint64_t may_be_marked = 1,  // a userfaultfd has asynchronous write protection there
    is_written = 2,                                // it has no mark
    is_file = 4, is_present = 8, is_swapped = 16, is_zero = 32, is_guard = 256;

// A flag: what is found gets a mark, page for page in one step.
inline constexpr std::uint64_t set_marks = 1;

}  // namespace cairn::capture::page_scan
