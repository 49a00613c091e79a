// A session's region in the memory of one of our programs. Without the library, because the launcher is
// small; libcairn.so, which calls no libc's function, does the same in hijack/resident.cpp.
#pragma once

#include <sys/mman.h>

#include "common/region.h"

namespace cairn {

// Maps the region's file, for reading and writing; null and errno (mmap(2)). The file has at least that many
// bytes, as a touch would be SIGBUS otherwise.
// Of a file that was only allocated the kernel would make megabytes of zeros before the first store is done,
// as much as the disk's read_ahead_kb says. The region is read and written here and there: nothing is read
// ahead.
[[nodiscard]] inline Region* map_whole_region(int fd) {
    void* const at = ::mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return nullptr;
    (void)::madvise(at, sizeof(Region), MADV_RANDOM);
    return static_cast<Region*>(at);
}

}  // namespace cairn
