// Pages that were read into the capture's own memory while their process stood still: of one that has so few
// to be stored that a copy-on-write child would take longer (docs/decisions/0044-write-protection.md and
// 0047-small-processes.md).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/helper_threads.h"
#include "common/program_address.h"
#include "common/ptrace/thread.h"

namespace cairn::capture {

// By /proc/PID/mem. process_vm_readv(2) pins what it reads, and since Linux 5.19 a page that is shared by a
// fork is copied before it is pinned (gup_must_unshare() in mm/gup.c): reading a copy-on-write child would
// take as much memory again, and twice the time. It is for kernels that let nobody read by the file, and for
// pages that the process itself may read (`readable`).
[[nodiscard]] Result<> read_pages(pid_t source, ptrace::ForcedReader& by, ProgramAddress at, bool readable,
                                  std::span<std::uint8_t> to);

// Memory for them, which a thread of its own makes the kernel find before anybody stands still.
class StillRoom {
  public:
    // Address space for `bytes`. Begins to look for the first `wanted` of them.
    StillRoom(std::size_t bytes, std::size_t wanted);
    ~StillRoom();
    StillRoom(const StillRoom&) = delete;
    StillRoom& operator=(const StillRoom&) = delete;

    // Ends the looking, as far as it has come.
    void leave_off();
    // A piece that nobody else has; none: there isn't as much left. Thread-safe.
    [[nodiscard]] std::optional<std::span<std::uint8_t>> take(std::size_t bytes);
    // All is there to be taken again: nobody uses what was.
    void begin_anew() { taken_ = 0; }

  private:
    std::uint8_t* bytes_;
    std::size_t size_;
    std::atomic<std::size_t> taken_ = 0;
    std::atomic<bool> enough_ = false;
    std::function<void()> touch_;
    HelperThreads toucher_;
};

class StillPages {
  public:
    struct Wanted {
        ProgramRange range;
        bool readable = false;
    };
    // `ranges`: of whole pages, in order, none in another. `source` stands still. Null: the room hasn't
    // enough left.
    [[nodiscard]] static Result<std::unique_ptr<StillPages>> read(pid_t source,
                                                                  const std::vector<Wanted>& ranges,
                                                                  std::shared_ptr<StillRoom> room);

    // The contents of a range that lies in one of those that were read; borrowed.
    [[nodiscard]] std::span<const std::uint8_t> at(ProgramRange range) const;
    // What was read of a range, at its place in `to`; what wasn't isn't touched.
    void copy(ProgramRange range, std::span<std::uint8_t> to) const;

  private:
    struct Part {
        ProgramRange range;
        std::span<const std::uint8_t> bytes;
    };
    std::vector<Part> parts_;
    std::shared_ptr<StillRoom> room_;
};

}  // namespace cairn::capture
