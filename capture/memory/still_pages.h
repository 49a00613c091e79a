// Pages that were read into the capture's own memory while their process stood still: of one that has so few
// to be stored that a copy-on-write child would take longer (docs/decisions/0044-write-protection.md).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/program_address.h"
#include "common/ptrace/thread.h"

namespace cairn::capture {

// By /proc/PID/mem. process_vm_readv(2) pins what it reads, and since Linux 5.19 a page that is shared by a
// fork is copied before it is pinned (gup_must_unshare() in mm/gup.c): reading a copy-on-write child would
// take as much memory again, and twice the time. It is for kernels that let nobody read by the file, and for
// pages that the process itself may read (`readable`).
[[nodiscard]] Result<> read_pages(pid_t source, ptrace::ForcedReader& by, ProgramAddress at, bool readable,
                                  std::span<std::uint8_t> to);

// Memory for them, which the kernel may be made to find before anybody stands still.
class StillRoom {
  public:
    explicit StillRoom(std::size_t bytes)
        : size_(bytes), bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(bytes)) {}
    // Page after page, until `enough`.
    void touch(const std::atomic<bool>& enough);
    [[nodiscard]] std::span<std::uint8_t> bytes() { return {bytes_.get(), size_}; }

  private:
    std::size_t size_;
    std::unique_ptr<std::uint8_t[]> bytes_;
};

class StillPages {
  public:
    struct Wanted {
        ProgramRange range;
        bool readable = false;
    };
    // `ranges`: of whole pages, in order, apart from each other. `source` stands still. `room`: is used if it
    // is large enough; may be null.
    [[nodiscard]] static Result<std::unique_ptr<StillPages>> read(pid_t source,
                                                                  const std::vector<Wanted>& ranges,
                                                                  std::shared_ptr<StillRoom> room);

    // The contents of a range that lies in one of those that were read; borrowed.
    [[nodiscard]] std::span<const std::uint8_t> at(ProgramRange range) const;

  private:
    struct Part {
        ProgramRange range;
        std::size_t offset = 0;  // in the room
    };
    std::vector<Part> parts_;
    std::shared_ptr<StillRoom> room_;
};

}  // namespace cairn::capture
