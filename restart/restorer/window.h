// A part of an image that is mapped while its pages are brought to where they belong: the kernel copies them
// from the page cache at once, and nothing is read into a buffer first. It goes before the program runs.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>

#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {

// Each reader has one of its own. It is small: whoever watches how much memory a process has (a batch system)
// counts what it has mapped, and would see the program twice. And it is not one for each run: where a process
// has several threads, to unmap something is to interrupt their processors.
class Window {
  public:
    // Where the `length` bytes at `offset` of the image are seen until the next call. 0: they can't be, and
    // have to be read, which has a word for what is wrong with the file.
    [[nodiscard]] std::uint64_t show(std::int32_t image, std::uint64_t offset, std::uint64_t length) {
        if (offset % page != 0 || length > size) return 0;
        const bool inside =
            at_ != 0 && image == image_ && offset >= start_ && offset + length <= start_ + size;
        if (!inside && !move(image, offset)) return 0;
        const auto seen = at_ + (offset - start_);
        // The first asks for all of it at once where it has to come from the disk. The second waits for it,
        // and fails where a touch would be SIGBUS: the file was cut, or the disk has an error (Linux 5.14).
        call(SYS_madvise, seen, length, MADV_WILLNEED);
        return call(SYS_madvise, seen, length, MADV_POPULATE_READ) == 0 ? seen : 0;
    }

    void close() {
        if (at_ != 0) call(SYS_munmap, at_, size);
        at_ = 0;
    }

  private:
    static constexpr std::uint64_t page = 4096, size = std::uint64_t{16} << 20;

    // Fails where the file system has no mappings, or the program as many as a process may have.
    bool move(std::int32_t image, std::uint64_t offset) {
        close();
        const long mapped = call(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, image, offset);
        if (mapped < 0) return false;
        at_ = static_cast<std::uint64_t>(mapped);
        start_ = offset;
        image_ = image;
        return true;
    }

    std::uint64_t at_ = 0, start_ = 0;  // 0: nothing is mapped
    std::int32_t image_ = -1;
};

}  // namespace cairn::restart::restorer
