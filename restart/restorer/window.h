// A part of an image that is mapped while its pages are brought to where they belong: the kernel copies them
// from the page cache at once, and nothing is read into a buffer first. It goes before the program runs.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

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
        const bool inside = image == image_ && offset >= start_ && offset + length <= start_ + size;
        if (!inside) move(image, offset);
        if (at_ == 0) return 0;
        const auto seen = at_ + (offset - start_);
        // It fails where a touch would be SIGBUS: the file was cut, or the disk has an error (Linux 5.14).
        return call(SYS_madvise, seen, length, MADV_POPULATE_READ) == 0 ? seen : 0;
    }

    void close() {
        if (at_ != 0) call(SYS_munmap, at_, size);
        at_ = 0;
        image_ = -1;
    }

  private:
    static constexpr std::uint64_t page = 4096, size = std::uint64_t{16} << 20;

    // Nothing is mapped where the file system has no mappings, or the program as many as a process may have.
    void move(std::int32_t image, std::uint64_t offset) {
        close();
        image_ = image;
        start_ = offset;
        if (is_on_disk(start_) || is_on_disk(start_ + size - page)) return;
        const long mapped = call(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, image, offset);
        if (mapped > 0) at_ = static_cast<std::uint64_t>(mapped);
    }

    // What has to come from the disk is better read: the kernel then reads ahead, and into large pieces of
    // memory. It does neither for a mapping that it is told to bring. The first and the last page stand for
    // all. Linux 4.14 (RWF_NOWAIT); what a file system says that can't tell is no word of the disk.
    [[nodiscard]] bool is_on_disk(std::uint64_t at) const {
        constexpr long error_again = -11;
        char byte;
        iovec to = {&byte, 1};
        return call(SYS_preadv2, image_, &to, 1, at, 0, RWF_NOWAIT) == error_again;
    }

    std::uint64_t at_ = 0, start_ = 0;  // 0: nothing is mapped
    std::int32_t image_ = -1;           // -1: there is no window
};

}  // namespace cairn::restart::restorer
